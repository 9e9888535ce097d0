// Damped least-squares steps on the CPU, and their linear system.
#pragma once

#include "../engine/engine.hpp"
#include "cpu_manifolds.hpp"
#include "cpu_terms.hpp"
#include "linear/conjugate_gradients.hpp"
#include "linear/listed_steps.hpp"
#include "linear/step_preconditioner.hpp"
#include "terms/linear_term.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
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

  ///   terms   outlives the system
  ///   listed  solves with the bits of the host; null: the host solves
  CpuSystem(CpuTerms<T>& terms, const EngineOptions& options,
            std::unique_ptr<ListedSolver> listed = nullptr)
      : terms_(terms),
        preconditioner_(make_preconditioner<T>(options.preconditioner, terms.bits())),
        krylov_(options.krylov) {
    if (listed != nullptr) listed_ = std::make_unique<ListedSteps>(std::move(listed));
  }

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
  /// The right side, for iterate() and iterate_there().
  void begin_iterations();
  int iterate(LinearOperator<T>& matrix, HostPreconditioner<T>& preconditioner,
              const CgOptions& options);
  /// Brings the system to the device that solves; false where there is none, or it cannot.
  bool prepare_there(StepSystem<T>& system);
  int iterate_there(const CgOptions& options);

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
  std::unique_ptr<ListedSteps> listed_;   // null: on the host
  CgVectors<T> cg_;
  bool scaled_ = false;
};

/// A linear system in f32, of the same model.
struct NarrowSystem {
  NarrowSystem(const EngineOptions& options, Bits bits)
      : terms(options, bits), system(terms, options) {}

  void follow(const Model& model);
  void linearize(std::span<const double> point);
  std::vector<MemoryUse> memory() const;

  CpuTerms<float> terms;
  CpuSystem<float> system;
  Column<float> x;
  bool is_linear = false;  ///< at the current point of the steps
};

/// The current point and the trial point, and the steps between them. The linear system may be in
/// f32: point and gradient are narrowed for it, and its solution is added here.
template <class T>
class CpuSteps final : public DampedSteps, public StepLengths, public LastStep, public Guards {
 public:
  ///   terms  outlives the steps
  CpuSteps(CpuTerms<T>& terms, const EngineOptions& options,
           std::unique_ptr<ListedSolver> listed = nullptr)
      : terms_(terms), system_(terms, options, std::move(listed)) {
    if (options.narrow_system) narrow_ = std::make_unique<NarrowSystem>(options, terms.bits());
  }

  /// Follows the terms, which have other unknowns if `moved`.
  void follow(const Model& model, bool moved);
  void set_point(std::span<const double> x);
  void point(std::span<double> x) const;
  const Column<T>& x() const { return x_; }
  /// True if the system has rows and Jacobian of the current point.
  bool is_linear() const { return linear_; }
  /// The gradient at the current point; null if linearize() has not computed it, or only a part.
  const Column<T>* known_gradient() const;
  CpuSystem<T>& system() { return system_; }
  const CpuSystem<T>& system() const { return system_; }

  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override;
  void accept() override;
  PreconditionerUse preconditioner() const override {
    return narrow_ ? narrow_->system.preconditioner() : system_.preconditioner();
  }
  NormalMatrixUse normal_matrix() const override {
    return {.why = {MatrixReason::stored_jacobian}};
  }
  StepReport rescale_step(double length) override { return finish_step(length); }
  void last_step(std::span<double> delta) override;

  std::uint64_t failed_guards() override { return terms_.failed_guards(); }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override {
    return terms_.failed_instances(term, at == At::point ? x_ : trial_);
  }
  double trial_cost() override;
  /// As EngineMeasurements::time_step().
  Timing time_step(int iterations, double damping, int samples);
  std::vector<MemoryUse> memory() const;
  /// Counts of the system in f32.
  EngineStats narrow_stats() const { return narrow_ ? narrow_->terms.stats() : EngineStats(); }

 private:
  /// Scalars that are fixed, or that a bound holds against this gradient.
  std::vector<std::uint8_t> held_at_bounds(const Column<T>& gradient) const;
  StepReport try_narrow_step(const StepRequest& request);
  /// The gradient as norms know it: by scalars of x, on manifolds x less x ⊞ −g.
  const Column<T>& gradient_moves();
  /// Sets the norms that do not depend on the unknowns' units.
  void add_scaled_norms(PointReport& report);
  /// Moves to x + length δ within the box and evaluates the cost there.
  StepReport finish_step(double length = 1);
  StepReport finish_step_on_manifolds();

  CpuTerms<T>& terms_;
  CpuSystem<T> system_;
  std::unique_ptr<NarrowSystem> narrow_;  // null: system_ solves for steps
  Column<T> x_, trial_;
  Column<T> moves_;  // scratch on manifolds
  T length_ = 1;     // of the last step
  bool linear_ = false, trial_ready_ = false;
  bool moved_ = false;  // trial_ is the point before the last accepted step
};

}  // namespace topograd::runtime::cpu
