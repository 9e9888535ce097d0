// The interface between the solver and a backend. x and all derived data belong to the engine.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../codegen/kernel.hpp"
#include "../../codegen/precision.hpp"
#include "../backend.hpp"
#include "../linear/choices.hpp"
#include "../model/model.hpp"
#include "../plan/passes.hpp"
#include "../plan/record/plan_record.hpp"
#include "damped_steps.hpp"
#include "engine_stats.hpp"

namespace topograd::runtime {

/// The pass that is timed and prepared for an evaluation of these values.
Pass pass_of_values(bool cost, bool residuals, bool gradient);

/// Destinations of an evaluation; null or empty ones are not computed.
struct Values {
  double* cost = nullptr;
  std::span<double> residuals;  ///< model.rows
  std::span<double> gradient;   ///< model.scalars
  Pass pass() const {
    return pass_of_values(cost != nullptr, !residuals.empty(), !gradient.empty());
  }
  /// True for the gradient and at least one other value.
  bool several() const { return !gradient.empty() && (cost != nullptr || !residuals.empty()); }
};

/// Second derivatives of the cost: residual terms and energies.
class SecondDerivatives {
 public:
  virtual ~SecondDerivatives() = default;
  /// ∇²cost·p.
  virtual void hvp(std::span<const double> p, std::span<double> out) = 0;
  /// Hessians of one term's instances by its parameter slots, in batch order: upper triangles
  /// packed by rows, values[i * n (n + 1) / 2 + k]. With `project`, negative eigenvalues of each
  /// instance's matrix are replaced by 0.
  virtual void hessian(std::size_t term, bool project, std::span<double> values) = 0;
};

/// Several values at the current point from one sweep over the instances, unless separate sweeps
/// are faster; the cost may differ by rounding.
class SeveralValues {
 public:
  virtual ~SeveralValues() = default;
  virtual void evaluate(const Values& wanted) = 0;
};

/// An evaluation in progress.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool ready() const = 0;  ///< does not wait
  /// Waits and writes the results to the arguments of begin(). Call once.
  virtual void finish() = 0;
};

/// Evaluations that run while the caller continues.
class AsynchronousEvaluations {
 public:
  virtual ~AsynchronousEvaluations() = default;
  /// Like runtime::begin() (engine.hpp), but returns before the evaluation has run.
  virtual std::unique_ptr<Pending> begin(Pass pass, std::span<const double> x,
                                         std::span<const double> p, std::span<double> out) = 0;
};

/// Checks of recorded branches: a topology with guards is valid only while its conditions have the
/// values of the trace. An engine counts and names failures; solver/session/retrace.hpp handles
/// them.
class Guards {
 public:
  virtual ~Guards() = default;
  /// Instances that failed a guard in the last cost(), linearize(), try_step() or trial_cost().
  virtual std::uint64_t failed_guards() = 0;
  enum class At { point, trial };
  /// Returns the instances of one term that fail a guard at `at`, ascending, as evaluated by the
  /// backend in its precision.
  virtual std::vector<std::uint32_t> failed_instances(std::size_t term, At at) = 0;
  /// Evaluates the cost at the trial point again; accept() may follow. refresh() keeps point and
  /// trial point if the unknowns are the same.
  virtual double trial_cost() = 0;
};

/// Kernels that are compiled before their first use. Engines without the ability need no
/// preparation.
class KernelsAhead {
 public:
  virtual ~KernelsAhead() = default;
  /// Starts to compile the kernels of a kind of evaluation, or of a step, without waiting. Returns
  /// true when they are ready. Throws the error of a failed compilation.
  virtual bool prepare(Pass pass) = 0;
  virtual bool prepare_step() = 0;
};

/// Points that survive the loss of a device.
class KnownPoint {
 public:
  virtual ~KnownPoint() = default;
  /// Copies the last accepted point that reached the host, without asking the device; for use after
  /// it failed. Returns false and leaves x unchanged if there is none.
  virtual bool last_known_point(std::span<double> x) = 0;
  /// Number of steps accepted since that point.
  virtual std::uint64_t steps_after_known_point() const { return 0; }
};

/// Layout and accumulation of the batches.
class Plans {
 public:
  virtual ~Plans() = default;
  /// Accumulation strategy of gradients by name ("gather_recompute"), for the report.
  virtual std::string accumulation() const = 0;
  /// Layout and accumulation of each batch, with the reasons.
  virtual PlanRecord plan() const = 0;
};

/// Bytes for one use.
struct MemoryUse {
  std::string use;           ///< for reports: "index columns"
  std::uint64_t host = 0;    ///< host bytes of this engine
  std::uint64_t device = 0;  ///< device bytes of all engines of its device
};
/// Combines two engines of one device, by use: sum of the host's bytes, maximum of the device's.
std::vector<MemoryUse> together(std::vector<MemoryUse> uses, const std::vector<MemoryUse>& more);

/// Median time of one evaluation, in µs: device timestamps if there are any, and wall time.
struct Timing {
  double device_us = 0;
  double wall_us = 0;
};

/// Measurements of times and sizes.
class EngineMeasurements {
 public:
  virtual ~EngineMeasurements() = default;
  /// Runs one kind of evaluation `warm_ups` + `samples` times with x resident; returns medians.
  virtual Timing time(Pass pass, int warm_ups, int samples) = 0;
  /// Times a Gauss-Newton step with exactly `iterations` CG iterations on JᵀJ + damping I; x stays.
  virtual Timing time_step(int iterations, double damping, int samples) = 0;
  /// Bytes per second, read and written, of a memory copy where the kernels run: the median of a
  /// few copies larger than all caches.
  virtual double copy_rate() = 0;
  /// The engine's memory by use; uses without memory are left out.
  virtual std::vector<MemoryUse> memory() const = 0;
};

class DampedSteps;
class StepElimination;
class GradientSteps;
class LastStep;
class StepLengths;

/// Optional interfaces of one engine; null if it lacks the ability. An engine that wraps another
/// one decides here, and nowhere else, which abilities of the inner one it passes on. The pointers
/// live as long as the engine; ask again after calls that may change where it runs.
///
/// Engines of the backends, and those that wrap them in a Session, have steps, known_point, plans
/// and measurements.
struct Abilities {
  DampedSteps* steps = nullptr;             ///< damped_steps.hpp
  StepLengths* step_lengths = nullptr;      ///< damped_steps.hpp
  LastStep* last_step = nullptr;            ///< damped_steps.hpp
  StepElimination* elimination = nullptr;   ///< step_elimination.hpp
  GradientSteps* gradient_steps = nullptr;  ///< first_order.hpp
  SecondDerivatives* second_derivatives = nullptr;
  SeveralValues* several_values = nullptr;
  AsynchronousEvaluations* asynchronous = nullptr;
  Guards* guards = nullptr;
  KernelsAhead* kernels_ahead = nullptr;
  KnownPoint* known_point = nullptr;
  Plans* plans = nullptr;
  EngineMeasurements* measurements = nullptr;
};

/// Kernels of one kind of evaluation, of damped steps, or of one kind of gradient steps.
struct Need {
  enum class Of { evaluation, damped_step, first_order_step, descent_step };
  Of of = Of::damped_step;
  Pass pass = Pass::residual;  ///< of an evaluation

  static Need evaluation(Pass pass) { return {Of::evaluation, pass}; }
  friend auto operator<=>(const Need&, const Need&) = default;
};

using codegen::Accumulation;
using codegen::Precision;

namespace cpu {
class KrylovMethod;
}

/// Options of one engine; a backend ignores options that do not apply to it.
struct EngineOptions {
  Precision precision = Precision::f64;
  /// Linear systems of try_step() are in f32, with the gradient at the f64 point: a solve ends
  /// where one in f64 does, and its iterations move half the bytes. `precision` is f64.
  bool narrow_system = false;
  int threads = 0;                               ///< CPU: 0 = all
  std::optional<Accumulation> accumulation;      ///< forced strategy; chosen if empty
  std::uint64_t max_instances_per_dispatch = 0;  ///< 0 = the device's limit
  std::string device;                            ///< Vulkan: index or name, empty = default
  std::string mask;  ///< Vulkan: features to hide, comma-separated names
  codegen::Float64 float64 = codegen::Float64::automatic;  ///< Vulkan: f64 of its kernels
  std::uint64_t max_storage_buffer_range = 0;   ///< Vulkan: bytes, lowers the limit; 0 leaves it
  std::uint64_t max_allocation_size = 0;        ///< Vulkan: bytes, lowers the limit
  std::uint32_t max_workgroup_invocations = 0;  ///< Vulkan: lowers the limit
  std::uint32_t shared_memory_bytes = 0;        ///< Vulkan: bytes, lowers the limit
  bool validation = false;                      ///< Vulkan: enable the validation layer
  /// All choices follow rules, none follows a measurement. On the CPU sums are taken by chunk
  /// (cpu/terms/term_costs.hpp), so that they have the same bits for any division of the model.
  bool deterministic = false;
  /// The part of a model that the engine's model is; null: the whole one.
  std::shared_ptr<const struct ModelPart> part;
  /// CPU, in f64: solves for steps in the place of conjugate gradients; null: they do.
  std::shared_ptr<cpu::KrylovMethod> krylov;
  Preconditioner preconditioner = Preconditioner::block_jacobi;  ///< of try_step()
  NormalMatrix normal_matrix = NormalMatrix::automatic;          ///< of try_step()
  /// Vulkan: choices of an earlier run, used for the same topology, pass and size.
  std::shared_ptr<const PlanRecord> plan;
};

class RowRunner;

/// Values and first derivatives at a point; abilities() has all optional interfaces.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual Abilities abilities() = 0;
  virtual Backend backend() const = 0;
  virtual std::string device() const = 0;  ///< name of the device that runs the kernels
  virtual EngineStats stats() const = 0;
  /// Runs any program over rows of numbers (../rows/rows.hpp) on this engine's device in its
  /// precision: for debug variants of kernels.
  virtual std::unique_ptr<RowRunner> row_runner() const = 0;

  /// Reads changed batches again, by their versions, and the uniforms and fixed flags of `model`,
  /// which is the same problem.
  virtual void refresh(const Model& model) = 0;

  // Values at the current point. x has model.scalars numbers, residuals model.rows, in the
  // problem's order. Derivatives by fixed scalars may be those of free ones; callers remove them.
  // Residuals, jvp, vjp and jtjp are those of the residual terms.
  /// Moves the point. Column scaling (StepRequest::jacobi_scaling) stays that of the solve's first
  /// step.
  virtual void set_point(std::span<const double> x) = 0;
  virtual void point(std::span<double> x) = 0;
  virtual double cost() = 0;
  virtual void residuals(std::span<double> out) = 0;
  virtual void gradient(std::span<double> out) = 0;
  /// values[(i * m + row) * n + slot] of one term's instances in batch order.
  virtual void jacobian(std::size_t term, std::span<double> values) = 0;
  virtual void jvp(std::span<const double> p, std::span<double> out) = 0;
  virtual void vjp(std::span<const double> seeds, std::span<double> out) = 0;
  virtual void jtjp(std::span<const double> p, std::span<double> out) = 0;
};

// Abilities with a substitute.
/// Uses SeveralValues, else evaluate_in_turn().
void evaluate(Engine& engine, const Values& wanted);
/// Calls cost(), residuals() and gradient() for the values in `wanted`.
void evaluate_in_turn(Engine& engine, const Values& wanted);
/// For engines whose callables may refuse a point: evaluates in turn; all are NaN if the cost is.
void evaluate_unless_refused(Engine& engine, const Values& wanted);
/// Starts an evaluation at x: of kind cost (one number), residual, gradient, or jvp, jtjp and hvp
/// with the direction p. x and p are read before it returns; finish() writes `out`, which must
/// outlive the handle; x becomes the current point. Other calls may follow before finish(). Without
/// AsynchronousEvaluations it has run when it returns. Throws Error{Unsupported} for other kinds.
std::unique_ptr<Pending> begin(Engine& engine, Pass pass, std::span<const double> x,
                               std::span<const double> p, std::span<double> out);
/// Uses KernelsAhead and GradientSteps to start compiling what `need` names, without waiting.
/// Returns true when it is ready, and for engines without KernelsAhead. Throws the error of a
/// failed compilation.
bool prepare(Engine& engine, const Need& need);

// Abilities without a substitute. Throw Error{Unsupported} if they are missing.
DampedSteps& damped_steps(Engine& engine);
StepLengths& step_lengths(Engine& engine);
SecondDerivatives& second_derivatives(Engine& engine);

}  // namespace topograd::runtime
