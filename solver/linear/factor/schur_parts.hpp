// The parts of a matrix in the elimination of blocks: their positions, and the eliminated results.
#pragma once

#include "../../../runtime/cpu/tiles/pool.hpp"
#include "complement.hpp"
#include "elimination.hpp"
#include "lists.hpp"
#include "schur_layout.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd {

/// Positions of the parts in the values of a matrix.
struct SchurPositions {
  SchurPositions(const SparseMatrix& lower, const SchurLayout& layout);

  std::vector<std::uint32_t> E;  // from SchurLayout::E on, by columns; kNoEntry if there is none
  std::vector<std::uint32_t> C;  // from SchurLayout::C on: lower triangles
  Lists<Complement::Entry> B;
  static constexpr std::uint32_t kNoEntry = ~std::uint32_t{0};
};

/// Eliminates blocks separately and in parallel: C of the blocks, E next to them, B of the rest,
/// Schur complement S = B − Eᵀ C⁻¹ E. Results do not depend on the number of threads.
class SchurParts {
 public:
  using Block = Eigen::Map<const Eigen::MatrixXd>;

  ///   threads  0 = all
  SchurParts(const SparseMatrix& lower, const Elimination& elimination, int threads);

  const SchurLayout& layout() const { return layout_; }
  const SchurPositions& positions() const { return positions_; }
  runtime::cpu::Pool& pool() const { return pool_; }
  std::size_t kept() const { return layout_.column.size(); }
  std::size_t entries() const { return E_.size(); }                     ///< of E
  Block coupling(std::uint32_t b) const { return part(E_, b); }         ///< E
  Block solved_coupling(std::uint32_t b) const { return part(W_, b); }  ///< W = C⁻¹ E
  Block inverse(std::uint32_t b) const {                                ///< C⁻¹
    return {inverse_.data() + layout_.C[b], layout_.blocks[b].width, layout_.blocks[b].width};
  }

  Complement::Couplings couplings() const { return {E_.data(), W_.data()}; }

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
  SchurPositions positions_;
  mutable runtime::cpu::Pool pool_;
  std::vector<double> E_, W_;    // of each block: E, and C⁻¹ E
  std::vector<double> inverse_;  // C⁻¹
};

}  // namespace topograd
