// The linear system of damped steps on the CPU.
#pragma once

#include "cpu_manifolds.hpp"
#include "cpu_terms.hpp"
#include "linear/conjugate_gradients.hpp"
#include "linear/step_preconditioner.hpp"
#include "terms/linear_term.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// (JᵀJ + λD) δ = −Jᵀr with the Jacobian stored at one point, solved by conjugate gradients. On
/// manifolds the gradient, the blocks and the step are those in tangent coordinates
/// (cpu_manifolds.hpp).
template <class T>
class CpuSystem {
 public:
  /// Figures of a solution; the decrease is that of the linear model.
  struct Solved {
    int iterations = 0;
    double seconds = 0, slope = 0, model_decrease = 0;
  };

  ///   terms  outlives the system
  CpuSystem(CpuTerms<T>& terms, const EngineOptions& options)
      : terms_(terms),
        preconditioner_(make_preconditioner<T>(options.preconditioner, terms.bits())),
        krylov_(options.krylov) {}

  /// Follows the terms, which have other unknowns if `moved`.
  void follow(const Model& model, bool moved);
  void begin_solve();
  /// As DampedSteps::transfer().
  void transfer(ir::StateRecord& record);

  const CpuManifolds<T>& manifolds() const { return manifolds_; }

  /// Stores rows, Jacobian, and bases of tangents at x.
  void store_jacobian(const Column<T>& x);
  /// Adds Σ r² (or Σ ρ) of the stored rows; x: the point of the Jacobian.
  void add_residual_square(const Column<T>& x, CostSum& cost);
  /// The stored Jacobian of a term; null for energies.
  const LinearTerm<T>* linear(const TermState<T>& term) const;
  /// Sums of the stored Jacobian.
  void sum_gradient();
  /// Takes exactly these scalars out of steps; 1 = out.
  void hold(std::vector<std::uint8_t> held);
  /// Replaces Jᵀr.
  void set_gradient(std::span<const double> g);
  const Column<T>& gradient() const { return gradient_; }
  /// Packed diagonal blocks of JᵀJ, and its diagonal; summed on first use.
  const Column<T>& blocks();
  const Column<T>& diagonal();
  /// Scalars that take no part in steps; empty: none.
  const std::vector<std::uint8_t>& held() const { return held_; }

  /// x: the point of the Jacobian.
  Solved solve(const Column<T>& x, const StepRequest& request);
  const Column<T>& delta() const { return delta_; }
  ///   delta  by scalars of x
  void set_delta(std::span<const double> delta);
  double gradient_times_delta() const;
  Timing time_step(const Column<T>& x, int iterations, double damping, int samples);

  PreconditionerUse preconditioner() const { return preconditioner_->use(); }
  std::vector<MemoryUse> memory() const;

 private:
  void follow_terms();
  void set_damping(const StepRequest& request);
  void set_scale(const StepRequest& request);
  template <class Damping>
  double multiply(const Damping& damping, const T* p, T* q);
  /// A direction by scalars of x: P v, or v itself without manifolds.
  const T* expanded(const T* v);
  /// Fixed scalars, and scalars without a tangent coordinate.
  std::vector<std::uint8_t> always_held() const;
  /// ‖Jδ‖² by the scalars of δ instead of by residuals, as engines on devices have it.
  double image_square_by_scalar() const;
  int iterate(LinearOperator<T>& matrix, HostPreconditioner<T>& preconditioner,
              const CgOptions& options);

  CpuTerms<T>& terms_;
  std::vector<LinearTerm<T>> linear_;  // of all residuals
  CpuManifolds<T> manifolds_;
  Column<T> ambient_;  // a direction by scalars of x; empty without manifolds
  Column<T> gradient_, delta_;
  Column<T> blocks_, diagonal_;  // of the stored Jacobian's JᵀJ if they are current
  bool blocks_current_ = false, diagonal_current_ = false;
  bool needs_blocks_ = false;  // the last step was solved here, not given
  // Squares of the column scaling (StepRequest); 0: no clamps.
  Column<T> scale_;
  Column<T> damping_;  // added to the diagonal
  std::vector<std::uint8_t> held_;
  std::unique_ptr<StepPreconditioner<T>> preconditioner_;
  std::shared_ptr<KrylovMethod> krylov_;  // null: conjugate gradients
  CgVectors<T> cg_;
  bool scaled_ = false;
};

}  // namespace topograd::runtime::cpu
