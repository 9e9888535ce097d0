// The Jacobian of a whole problem in tangent coordinates, on the host; patterns are found once.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../model/host_terms.hpp"
#include "tangent_space.hpp"

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd {

/// J P, block by block, and the lower triangle of PᵀJᵀJP.
///
/// Sums are made in the order of terms, instances and host blocks, so that results are the same
/// bits in every run.
class TangentJacobian {
 public:
  /// All three outlive it; topologies' batches keep their structure.
  TangentJacobian(const runtime::Model& model, const TangentSpace& space, const HostTerms& host);

  /// Takes the engine's Jacobians, the host blocks' and the bases of the tangent spaces.
  void refresh(runtime::Engine& engine, std::span<const double> basis);

  std::size_t columns() const { return columns_; }
  std::uint64_t rows() const { return rows_; }
  /// Lower triangle of PᵀJᵀJP, every diagonal entry there. Its pattern is found at the first call;
  /// throws Error{Unsupported} if it has 2³¹ entries or more.
  const Eigen::SparseMatrix<double>& normal();
  /// ‖column‖, at the same point.
  Eigen::VectorXd column_norms() const;
  /// By column: number of the parameter block that it belongs to.
  std::vector<std::uint32_t> block_of_column() const;
  /// The whole matrix, (rows, columns).
  Eigen::MatrixXd dense() const;
  /// The same with its zeros left out.
  Eigen::SparseMatrix<double> sparse() const;

 private:
  /// A residual block, or a run of host blocks: a dense (rows, columns) matrix over some columns.
  struct Block {
    std::uint64_t first_row = 0;
    std::uint32_t rows = 0, count = 0;  // of rows and columns
    std::size_t columns = 0;            // where they begin in column_
    std::size_t values = 0;             // likewise in values_
    std::size_t pairs = 0;              // likewise in pair_
  };

  void add_block(std::uint64_t row, std::uint32_t rows, std::span<const std::uint32_t> scalars);
  void add_column(const Block& block, std::uint32_t scalar, const double* entry, std::size_t stride,
                  std::span<const double> basis);
  bool has_columns_of(const Block& first, const Block& second) const;
  /// True if the block before this one is over the same columns.
  bool continues_columns(const Block& block) const {
    if (&block == blocks_.data()) return false;
    const Block& before = (&block)[-1];
    return before.count == block.count && before.columns == block.columns;
  }
  void add_square(const Block& block, std::uint32_t rows);
  /// Adjacent columns.
  struct Run {
    std::uint32_t first = 0, count = 0;
    auto operator<=>(const Run&) const = default;
  };
  std::vector<Run> runs_of(const Block& block, const std::vector<std::uint32_t>& block_of) const;
  /// By column: rows of its entries, ascending from the diagonal on.
  std::vector<std::vector<std::int32_t>> rows_by_column(
      const std::vector<std::uint32_t>& block_of) const;
  void set_pattern(const std::vector<std::vector<std::int32_t>>& rows);
  /// Appends the positions of a block's pairs of columns to pair_.
  void find_positions(const std::vector<Run>& runs);
  void find_pattern();

  const runtime::Model& model_;
  const TangentSpace& space_;
  const HostTerms& host_;
  std::size_t columns_ = 0;
  std::uint64_t rows_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> column_;  // of the blocks, ascending in each
  std::vector<double> values_;
  std::vector<std::uint32_t> pair_;  // position in normal_ of columns (s, t), s <= t, of a block
  Eigen::SparseMatrix<double> normal_;
  bool summed_ = false;
};

}  // namespace topograd
