// The two-level preconditioner on the vectors of an engine.
#pragma once

#include "../../../codegen/precision.hpp"
#include "../../../ir/machine/state_record.hpp"
#include "../../linear/coarse_plan.hpp"
#include "../tiles/column.hpp"
#include "../tiles/pool.hpp"
#include "conjugate_gradients.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <span>

namespace topograd::runtime::cpu {

using codegen::Bits;

/// P (Pᵀ A P)⁻¹ Pᵀ for the vectors P of a plan. The sum with D⁻¹ is symmetric and positive definite
/// for any A. Sums have a fixed order.
template <class T>
class TwoLevel {
 public:
  struct System {
    const T* x = nullptr;                 ///< the point
    std::uint64_t scalars = 0;            ///< of x
    LinearOperator<T>& matrix;            ///< A, damped
    const HostPreconditioner<T>& blocks;  ///< D
  };

  explicit TwoLevel(Bits bits = Bits::native) : bits_(bits) {}

  /// Makes vectors and matrix, and factorises it. Returns false if it is not positive definite.
  ///
  /// Cost: plan.products() products with A, and a Cholesky factorisation.
  bool build(Pool& pool, const CoarsePlan& plan, const System& system);

  /// Saves or restores vectors and matrix.
  void transfer(ir::StateRecord& record, const CoarsePlan& plan);

  /// z += P (Pᵀ A P)⁻¹ Pᵀ r; returns r · the added part.
  double add(Pool& pool, const CoarsePlan& plan, const T* r, T* z);

  /// P by vector and entry, and the lower triangle of Pᵀ A P, for tests.
  std::span<const T> vectors() const { return vectors_; }
  const Eigen::MatrixXd& matrix() const { return matrix_; }

  std::uint64_t bytes() const;

 private:
  void fill_vectors(Pool& pool, const CoarsePlan& plan, const System& system);
  void add_answers(Pool& pool, const CoarsePlan& plan, const System& system);
  void fill_matrix(Pool& pool, const CoarsePlan& plan, const System& system);
  bool factorise();
  /// p = Σ_f y[g * functions + f] · vector f of g on all entries.
  void expand(Pool& pool, const CoarsePlan& plan, const double* y, T* p) const;
  /// Pᵀ r of one aggregate.
  void restrict_to(const CoarsePlan& plan, std::size_t aggregate, const T* r, double* out) const;

  Bits bits_;
  Column<T> vectors_, direction_, product_;
  Eigen::MatrixXd matrix_;
  Eigen::MatrixXd factor_;  ///< its lower triangle
  Eigen::VectorXd coarse_, solution_;
};

}  // namespace topograd::runtime::cpu
