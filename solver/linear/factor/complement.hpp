// The Schur complement of eliminated blocks: the kept columns that they meet, and its factor.
#pragma once

#include "../../../runtime/cpu/tiles/pool.hpp"
#include "elimination.hpp"
#include "factorization.hpp"
#include "lists.hpp"
#include "panel.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace topograd {

/// Eliminated blocks, kept columns, and where they meet. Kept columns have numbers of their own, in
/// the order of the matrix.
struct SchurLayout {
  ///   eliminated  blocks of columns, ascending
  ///   columns     of the whole matrix
  ///   neighbours  of each block: kept columns that meet it, ascending
  SchurLayout(const std::vector<Elimination::Block>& eliminated, std::size_t columns,
              Lists<std::uint32_t> neighbours);

  /// A column is kept if its block is kNone.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Position {
    std::uint32_t block;  // eliminated, or kNone
    std::uint32_t at;     // column of the block, or number of the kept column
  };
  /// Positions of all columns, as the constructor needs them for its neighbours.
  static std::vector<Position> positions_of(const std::vector<Elimination::Block>& eliminated,
                                            std::size_t columns);

  std::vector<Elimination::Block> blocks;
  std::vector<std::uint32_t> column;  // of the matrix, by kept column
  Lists<std::uint32_t> neighbours;    // of each block
  std::vector<std::size_t> E;         // start of a block's (width, neighbours) numbers, and the end
  std::vector<std::size_t> C;         // start of a block's (width, width) numbers, and the end
  struct Use {
    std::uint32_t block, at;  // the column is neighbours[block][at]
  };
  Lists<Use> uses;  // by kept column
  /// First columns of groups of adjacent kept columns that meet the same blocks, in adjacent
  /// rows, and the number of kept columns.
  std::vector<std::uint32_t> panels;

 private:
  void find_uses();
  void find_panels();
};

/// S = B − Σ LᵀR over eliminated blocks, by lower triangle, with a Cholesky factor. Results do not
/// depend on the number of threads.
class Complement {
 public:
  struct Entry {
    std::uint32_t row, position;  // kept; in the values of B
  };
  /// Matrices L and R of the blocks, (width, neighbours) from SchurLayout::E on, by columns.
  struct Couplings {
    const double *left, *right;
  };
  /// The right side is reduced with S: right −= Σ Lᵀ y.
  struct RightSide {
    const double* y;         // of the blocks' columns, one block after the other
    Eigen::VectorXd& right;  // of the kept columns
  };

  /// Finds the pattern and an order.
  ///
  ///   layout   outlives this
  ///   B        by kept column: rows from the diagonal on
  ///   work     threads, and bits of the factor
  Complement(const SchurLayout& layout, Lists<Entry> B, const runtime::cpu::CpuWork& work);

  /// Sums S and factorises it; false if it is not positive definite.
  bool factor(const double* B, const Couplings& couplings, const RightSide* right_side = nullptr);
  Eigen::VectorXd solve(const Eigen::VectorXd& right) const;

  /// Operations of the sum.
  double products() const;
  /// As those of Factorization.
  double entries() const { return factor_ ? factor_->entries() : 0; }
  double flops() const { return factor_ ? factor_->flops() : 0; }

 private:
  void find_pattern();
  void expect(const SchurLayout::Use& use, const Couplings& couplings) const;
  void sum_panel(const double* B, const Couplings& couplings, const RightSide* right_side,
                 std::uint32_t first, std::uint32_t last, Panel& panel);

  const SchurLayout& layout_;
  Lists<Entry> B_;
  std::vector<std::uint32_t> first_;       // by block: its first column among all eliminated ones
  SparseMatrix matrix_;                    // lower triangle
  std::unique_ptr<Factorization> factor_;  // null: nothing is kept
  runtime::cpu::Pool pool_;
};

}  // namespace topograd
