// The Schur complement of eliminated blocks, and its factor.
#pragma once

#include "../../../runtime/cpu/tiles/pool.hpp"
#include "factorization.hpp"
#include "lists.hpp"
#include "panel.hpp"
#include "schur_layout.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <memory>
#include <vector>

namespace topograd {

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
