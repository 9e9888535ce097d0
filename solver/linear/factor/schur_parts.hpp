// The parts of a matrix in the elimination of blocks: their positions, and the eliminated results.
#pragma once

#include "../../../runtime/cpu/tiles/pool.hpp"
#include "elimination.hpp"
#include "lists.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd {

/// Positions of the parts in the matrix's values: C of the blocks, E next to them, B of the rest.
struct SchurLayout {
  SchurLayout(const SparseMatrix& lower, const Elimination& elimination);

  std::vector<Elimination::Block> blocks;
  std::vector<std::uint32_t> column;      // of the matrix, by kept column
  Lists<std::uint32_t> neighbours;        // kept columns that meet a block, ascending
  std::vector<std::size_t> E;             // of a block's (width, neighbours) positions, by columns
  std::vector<std::uint32_t> E_position;  // kNone if there is no entry
  std::vector<std::size_t> C;             // of a block's (width, width) positions: lower triangle
  std::vector<std::uint32_t> C_position;
  struct Entry {
    std::uint32_t row, position;
  };
  Lists<Entry> B;  // by kept column: rows from the diagonal on
  struct Use {
    std::uint32_t block, at;  // the column is neighbours[block][at]
  };
  Lists<Use> uses;  // by kept column
  /// First columns of groups of adjacent kept columns that meet the same blocks, in adjacent
  /// places, and the number of kept columns.
  std::vector<std::uint32_t> panels;

 private:
  void find_neighbours(const SparseMatrix& lower);
  void find_uses();
  void find_panels();
  void place_entries(const SparseMatrix& lower);

  std::vector<std::uint32_t> block_of_, place_;  // by column: its block or kNone; its place there
};

/// Eliminates blocks separately and in parallel: C of the blocks, E next to them, B of the rest,
/// Schur complement S = B − Eᵀ C⁻¹ E. Results do not depend on the number of threads.
class SchurParts {
 public:
  using Block = Eigen::Map<const Eigen::MatrixXd>;

  ///   threads  0 = all
  SchurParts(const SparseMatrix& lower, const Elimination& elimination, int threads);

  const SchurLayout& layout() const { return layout_; }
  runtime::cpu::Pool& pool() const { return pool_; }
  std::size_t kept() const { return layout_.column.size(); }
  std::size_t entries() const { return E_.size(); }                     ///< of E
  Block coupling(std::uint32_t b) const { return part(E_, b); }         ///< E
  Block solved_coupling(std::uint32_t b) const { return part(W_, b); }  ///< W = C⁻¹ E
  Block inverse(std::uint32_t b) const {                                ///< C⁻¹
    return {inverse_.data() + layout_.C[b], layout_.blocks[b].width, layout_.blocks[b].width};
  }

  /// Eliminates with values of the lower triangle. False if a block is not positive definite.
  bool eliminate(const double* values);
  /// Computes the right side of the kept columns.
  Eigen::VectorXd reduce(const Eigen::VectorXd& right) const;
  /// Computes all columns from the solution of the kept ones.
  Eigen::VectorXd expand(const Eigen::VectorXd& kept, const Eigen::VectorXd& right) const;

 private:
  /// `rows` is the width of the block if it is known at compile time, else Eigen::Dynamic.
  template <int rows>
  bool eliminate_block(const double* values, std::uint32_t b);
  Block part(const std::vector<double>& values, std::uint32_t b) const {
    return {values.data() + layout_.E[b], layout_.blocks[b].width,
            static_cast<Eigen::Index>(layout_.neighbours.size(b))};
  }
  SchurLayout layout_;
  mutable runtime::cpu::Pool pool_;
  std::vector<double> E_, W_;    // of each block: E, and C⁻¹ E
  std::vector<double> inverse_;  // C⁻¹
};

}  // namespace topograd
