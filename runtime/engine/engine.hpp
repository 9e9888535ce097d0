// What the solver and the evaluator ask of a backend. x and what belongs to it live with the
// engine.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../backend.hpp"
#include "../linear/normal_matrix.hpp"
#include "../linear/preconditioner.hpp"
#include "../model/model.hpp"
#include "../plan/record/plan_record.hpp"
#include "abilities.hpp"
#include "engine_stats.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime {

using codegen::Accumulation;
using codegen::Precision;

/// Options of one engine; what does not apply to a backend is ignored by it.
struct EngineOptions {
  Precision precision = Precision::f64;
  int threads = 0;                               ///< CPU: 0 = all
  std::optional<Accumulation> accumulation;      ///< forced rung; otherwise chosen
  std::uint64_t max_instances_per_dispatch = 0;  ///< 0 = the device's limit
  std::string device;                            ///< Vulkan: index or name, empty = default
  std::string mask;                             ///< Vulkan: features to hide, comma-separated names
  std::uint64_t max_storage_buffer_range = 0;   ///< Vulkan: bytes, lowers the limit; 0 leaves it
  std::uint64_t max_allocation_size = 0;        ///< Vulkan: likewise
  std::uint32_t max_workgroup_invocations = 0;  ///< Vulkan: likewise
  std::uint32_t shared_memory_bytes = 0;        ///< Vulkan: likewise
  bool validation = false;                      ///< Vulkan: with the validation layer
  bool deterministic = false;  ///< every choice from rules alone, none from measurement
  Preconditioner preconditioner = Preconditioner::block_jacobi;  ///< of try_step()
  NormalMatrix normal_matrix = NormalMatrix::automatic;          ///< likewise
  /// Vulkan: choices of an earlier run, taken where their topology, pass and size are the same.
  std::shared_ptr<const PlanRecord> plan;
};

/// Cost is ½ Σ r² over all rows, and the energies. Constant scalars have zero gradient and never
/// move. Within a box, g_i stands for x_i less the projection of x_i − g_i in the norms, as Ceres
/// has it.
struct PointReport {
  double cost = 0;
  double gradient_max_norm = 0;  ///< max |g_i|
  double gradient_norm = 0;      ///< ‖g‖
  double x_norm = 0;             ///< ‖x‖ over free scalars
  // The same where each scalar is multiplied by the norm of its column of J: changes of units of
  // the unknowns leave them, and they have the unit of the residuals. Columns of zeros count as 0,
  // scalars on a bound that the gradient holds them to as constant. NaN: the engine has no columns.
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double scaled_gradient_max = kUnknown;   ///< max |g_i| / ‖J_i‖
  double scaled_gradient_norm = kUnknown;  ///< √Σ (g_i / ‖J_i‖)²
  double scaled_x_norm = kUnknown;         ///< √Σ (‖J_i‖ x_i)²
  double scaled_step_norm = kUnknown;      ///< of the step that led here; no meaning without one
};

/// When a trial step becomes the current point, and of which length it is then.
struct StepRule {
  /// Cost's decrease over the model's, above which a step is accepted.
  double min_gain = 1e-3;
  /// Armijo's constant: a step is left to the caller where the cost does not fall by so much of
  /// StepReport::slope; 0: every step is decided.
  double min_decrease = 0;
  /// Where the gain is far from 1, another length is tried, and the better one of the two is kept:
  /// 1 / (2 − gain) up to `longest`, for gains above `least_gain`, where it differs from 1 by
  /// `least_change`.
  bool rescales = true;
  double least_gain = -1, least_change = 0.2, longest = 2;
};

struct StepRequest {
  double lambda = 0;           ///< 1 / radius: damping λ D with D = clamped diagonal of JᵀJ
  double min_diagonal = 1e-6;  ///< clamps of the diagonal, in the scaled space
  double max_diagonal = 1e32;
  /// Columns scaled by 1 / (1 + ‖column‖), as Ceres does; the norms are those of J where the
  /// engine's first step began, and stay so while the unknowns are the same.
  bool jacobi_scaling = true;
  /// Columns are scaled by 1 / ‖column‖ instead, and those that are 0 have no clamps, so that a
  /// change of units changes no step. Factors of small problems use 1 / (‖r‖ / |x_i| + ‖column‖).
  bool scale_free = false;
  bool energy_norm = false;  ///< CG stops in the norm of the preconditioner, √(r·M⁻¹r), not in ‖r‖
  double linear_tolerance = 1e-5;  ///< ‖residual of the normal equations‖ / ‖g‖ at which CG stops
  int max_linear_iterations = 500;
  double eta = 0;  ///< CG stops where its model gains no more, too (GainTest); 0: never
  /// An engine that can may follow it, and set StepReport::accepted.
  std::optional<StepRule> rule;
};

struct StepReport {
  double model_decrease =
      0;  ///< cost(x) minus the linear model's ½‖r + Jδ‖²; positive for a useful step
  double step_norm = 0;         ///< ‖δ‖
  double scaled_step_norm = 0;  ///< in the norm of the trust region; of steps by dogleg alone
  double trial_cost = 0;        ///< at x + δ; may be NaN or infinite
  double slope = 0;             ///< within a box: g·δ, of the step before it was projected
  int linear_iterations = 0;
  double linear_seconds = 0;  ///< part of the call that solved the linear system, wall time
  /// Set where the engine followed StepRequest::rule: the report is that of the length that was
  /// kept. Where it was accepted, accept() and linearize() are called all the same, and tell what
  /// is known.
  std::optional<bool> accepted;
};

/// Bytes that are held for one use.
struct MemoryUse {
  std::string use;           ///< words for a report: "index columns"
  std::uint64_t host = 0;    ///< by this engine
  std::uint64_t device = 0;  ///< by all engines of its device
};
/// Of two engines on one device, by use: the host's bytes added up, the larger of the device's.
std::vector<MemoryUse> together(std::vector<MemoryUse> uses, const std::vector<MemoryUse>& more);

/// Median time of one evaluation, in µs (device timestamps where there are any, wall time beside
/// it).
struct Timing {
  double device_us = 0;
  double wall_us = 0;
};
enum class KernelKind {
  residual,
  cost,
  gradient,
  jacobian,
  jtjp,
  blocks,
  jvp,
  vjp,
  hvp,
  hessian,
  cost_gradient,  ///< both by one sweep
  values          ///< residuals, cost and gradient by one sweep
};
inline constexpr int kKernelKinds = static_cast<int>(KernelKind::values) + 1;
std::string_view name(KernelKind kind);

/// What is timed and prepared for an evaluation that is asked for these.
KernelKind kind_of_values(bool cost, bool residuals, bool gradient);

/// Where an evaluation's values go; what is null or empty is not wanted.
struct Values {
  double* cost = nullptr;
  std::span<double> residuals;  ///< model.rows
  std::span<double> gradient;   ///< model.scalars
  KernelKind kind() const {
    return kind_of_values(cost != nullptr, !residuals.empty(), !gradient.empty());
  }
  /// The gradient and something else.
  bool several() const { return !gradient.empty() && (cost != nullptr || !residuals.empty()); }
};

class RowRunner;

/// An evaluation that was begun (Engine::begin).
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool ready() const = 0;  ///< does not wait
  /// Waits, and writes the results to where begin() was told. Once.
  virtual void finish() = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual Abilities abilities() { return {}; }

  virtual Backend backend() const = 0;
  virtual std::string device() const = 0;  ///< name of what runs the kernels
  virtual EngineStats stats() const = 0;
  /// The rung in use for gradients, by name ("gather_recompute"), for the report.
  virtual std::string accumulation() const = 0;

  /// How the batches are laid out and summed, and why. Empty where there is nothing to choose.
  virtual PlanRecord plan() const { return {}; }

  /// Begins to make the kernels of a kind of evaluation, or of a step, without waiting for them.
  /// True once they are there, always on the interpreter. Throws what making one of them threw.
  virtual bool prepare(KernelKind /*kind*/) { return true; }
  virtual bool prepare_step() { return true; }

  /// Runs any program over rows of numbers (../rows/rows.hpp) where this engine's kernels run, in
  /// its precision: for debug variants of them. By default on the interpreter, in f64.
  virtual std::unique_ptr<RowRunner> row_runner() const;

  /// Re-reads what changed, by the versions of the model's batches; uniforms and constant flags are
  /// taken as they are in `model`, which is the same problem.
  virtual void refresh(const Model& model) = 0;

  // Values at the current point. x has model.scalars numbers, residuals model.rows, in the
  // problem's order. Derivatives by constant scalars may be given as if these
  // were free; callers take them out.
  /// Column scaling (StepRequest::jacobi_scaling) stays what the first step since begin_solve() has
  /// made it.
  virtual void set_point(std::span<const double> x) = 0;
  virtual void point(std::span<double> x) = 0;
  /// The last accepted point that reached the host, without asking the device; for use after it
  /// failed. False, and x untouched, if there is none.
  virtual bool last_known_point(std::span<double> /*x*/) { return false; }
  /// Steps accepted since that point.
  virtual std::uint64_t steps_after_known_point() const { return 0; }
  virtual double cost() = 0;
  virtual void residuals(std::span<double> out) = 0;
  virtual void gradient(std::span<double> out) = 0;
  /// The same values as by the calls above, by one sweep over the instances where there is more
  /// than one to make, and where that is not slower; the cost may differ by rounding. By default
  /// the calls above, in turn.
  virtual void evaluate(const Values& wanted);
  /// values[(i * m + row) * n + slot] of one term's instances in batch order.
  virtual void jacobian(std::size_t term, std::span<double> values) = 0;
  virtual void jvp(std::span<const double> p, std::span<double> out) = 0;
  virtual void vjp(std::span<const double> seeds, std::span<double> out) = 0;
  virtual void jtjp(std::span<const double> p, std::span<double> out) = 0;

  /// Begins an evaluation at x and returns, where the engine can, before it has run: of kind cost
  /// (one number), residual, gradient, or jvp, jtjp and hvp with the direction p. x and p are read
  /// before it returns, `out` is written by finish() and outlives the handle; x is the current
  /// point then. Other calls may follow before finish(). Throws Error{Unsupported} for other kinds.
  /// By default the evaluation has run when it returns.
  virtual std::unique_ptr<Pending> begin(KernelKind kind, std::span<const double> x,
                                         std::span<const double> p, std::span<double> out);
  /// begin() returns before the evaluation has run.
  virtual bool runs_asynchronously() const { return false; }

  // Second derivatives of the cost, residual terms and energies alike. Residuals, jvp, vjp, jtjp
  // and the steps below are those of the residual terms. An engine without second derivatives
  // throws Error{Unsupported}.
  /// ∇²cost·p.
  virtual void hvp(std::span<const double> p, std::span<double> out);
  /// Hessians of one term's instances by its parameter slots, in batch order: upper triangles
  /// packed by rows, values[i * n (n + 1) / 2 + k]. With `project`, negative eigenvalues of each
  /// instance's matrix are replaced by 0.
  virtual void hessian(std::size_t term, bool project, std::span<double> values);

  // Branches: a topology with guards holds only where its conditions are what they were when its
  // residuals were traced. An engine counts and names what fails; who calls it sees to the rest
  // (solver/session/retrace.hpp).
  /// Instances that failed a guard in the last cost(), linearize(), try_step() or trial_cost().
  virtual std::uint64_t failed_guards() { return 0; }
  enum class At { point, trial };
  /// The instances of one term that fail a guard there, ascending; evaluated by the backend, in its
  /// precision.
  virtual std::vector<std::uint32_t> failed_instances(std::size_t /*term*/, At /*at*/) {
    return {};
  }
  /// Cost at the trial point, evaluated again; accept() takes it after this. refresh() keeps point
  /// and trial point where the unknowns are the same.
  virtual double trial_cost() { return 0; }

  // Damped least-squares steps. Within a box (Model::lower), the trial point is the projection of
  // x + δ, step_norm that of what is left of the step; and scalars on a bound that the gradient
  // holds them to take no part in steps from there (Bertsekas, Projected Newton Methods, 1982).
  /// The next step is the first of another solve.
  virtual void begin_solve() {}
  /// Cost, gradient, diagonal blocks at the current point; kept for try_step.
  virtual PointReport linearize() = 0;
  /// Solves (JᵀJ + λD) δ = −Jᵀr by conjugate gradients with the preconditioner of the options,
  /// moves to the trial point.
  virtual StepReport try_step(const StepRequest& request) = 0;
  /// What these were preconditioned with since begin_solve().
  virtual PreconditionerUse preconditioner() const { return {}; }
  /// How these multiply by JᵀJ.
  virtual NormalMatrixUse normal_matrix() const { return {}; }
  /// Takes δ from the host (direct solvers); model_decrease is not set.
  virtual StepReport try_step(std::span<const double> delta) = 0;
  /// The point that the last try_step() moved to. Throws Error{Unsupported} by default.
  virtual void trial_point(std::span<double> x);
  // For solves whose linear system is less precise than their point:
  // solver/session/mixed_engine.hpp.
  /// Takes the place of Jᵀr in the steps from the current point; between linearize() and
  /// try_step(). Throws Error{Unsupported} by default.
  virtual void set_gradient(std::span<const double> g);
  /// Within a box: these scalars, and no others, take no part in steps from the current point; 1 =
  /// held. Between linearize() and set_gradient(). Throws Error{Unsupported} by default.
  virtual void hold(std::span<const std::uint8_t> held);
  /// The δ of the last try_step(). Throws Error{Unsupported} by default.
  virtual void last_step(std::span<double> delta);

  /// Moves the trial point to x + length δ, with the δ of the last try_step(); step_norm and
  /// trial_cost are set. One evaluation of the cost. False by default: this engine cannot.
  virtual bool can_rescale_step() const { return false; }
  virtual StepReport rescale_step(double length);
  virtual void accept() = 0;  ///< the trial point becomes the current point

  /// Runs one kind of evaluation `warm_ups` + `samples` times with x resident; medians.
  virtual Timing time(KernelKind kind, int warm_ups, int samples) = 0;
  /// One Gauss-Newton step with exactly `iterations` CG iterations on JᵀJ + damping I; x stays
  /// where it is.
  virtual Timing time_step(int iterations, double damping, int samples) = 0;

  // What times and sizes are measured against.
  /// Bytes a second, read and written, of a copy from memory to memory where the kernels run: the
  /// median of a few copies that fit no cache. 0 where nobody has measured it.
  virtual double copy_rate() { return 0; }
  /// What the engine's memory is for; uses that take none are left out.
  virtual std::vector<MemoryUse> memory() const { return {}; }

 protected:
  /// evaluate() of engines whose callables may refuse a point: in turn, and all NaN where the cost
  /// is.
  void evaluate_unless_refused(const Values& wanted);
};

}  // namespace topograd::runtime
