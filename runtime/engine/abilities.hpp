// Optional abilities of engines.
#pragma once

#include "../plan/record/plan_record.hpp"
#include "evaluation.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime {

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
class Measurements {
 public:
  virtual ~Measurements() = default;
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
class Elimination;
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
  Elimination* elimination = nullptr;       ///< elimination.hpp
  GradientSteps* gradient_steps = nullptr;  ///< first_order.hpp
  SecondDerivatives* second_derivatives = nullptr;
  SeveralValues* several_values = nullptr;
  AsynchronousEvaluations* asynchronous = nullptr;
  Guards* guards = nullptr;
  KernelsAhead* kernels_ahead = nullptr;
  KnownPoint* known_point = nullptr;
  Plans* plans = nullptr;
  Measurements* measurements = nullptr;
};

}  // namespace topograd::runtime
