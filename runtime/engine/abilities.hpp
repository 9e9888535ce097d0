// What an engine can do beside evaluating at its point.
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

/// Second derivatives of the cost, residual terms and energies alike.
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

/// Several values at the current point by one sweep over the instances, where there is more than
/// one to make, and where that is not slower; the cost may differ by rounding.
class SeveralValues {
 public:
  virtual ~SeveralValues() = default;
  virtual void evaluate(const Values& wanted) = 0;
};

/// An evaluation that was begun.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool ready() const = 0;  ///< does not wait
  /// Waits, and writes the results to where begin() was told. Once.
  virtual void finish() = 0;
};

/// Evaluations that are begun, and run while the caller does something else.
class AsynchronousEvaluations {
 public:
  virtual ~AsynchronousEvaluations() = default;
  /// As runtime::begin() (engine.hpp), and returns before the evaluation has run.
  virtual std::unique_ptr<Pending> begin(KernelKind kind, std::span<const double> x,
                                         std::span<const double> p, std::span<double> out) = 0;
};

/// Branches: a topology with guards holds only where its conditions are what they were when its
/// residuals were traced. An engine counts and names what fails; who calls it sees to the rest
/// (solver/session/retrace.hpp).
class Guards {
 public:
  virtual ~Guards() = default;
  /// Instances that failed a guard in the last cost(), linearize(), try_step() or trial_cost().
  virtual std::uint64_t failed_guards() = 0;
  enum class At { point, trial };
  /// The instances of one term that fail a guard there, ascending; evaluated by the backend, in its
  /// precision.
  virtual std::vector<std::uint32_t> failed_instances(std::size_t term, At at) = 0;
  /// Cost at the trial point, evaluated again; accept() takes it after this. refresh() keeps point
  /// and trial point where the unknowns are the same.
  virtual double trial_cost() = 0;
};

/// Kernels that are made before they are needed. Without it nothing has to be made.
class KernelsAhead {
 public:
  virtual ~KernelsAhead() = default;
  /// Begins to make the kernels of a kind of evaluation, or of a step, without waiting for them.
  /// True once they are there. Throws what making one of them threw.
  virtual bool prepare(KernelKind kind) = 0;
  virtual bool prepare_step() = 0;
};

/// Points that outlive a device.
class KnownPoint {
 public:
  virtual ~KnownPoint() = default;
  /// The last accepted point that reached the host, without asking the device; for use after it
  /// failed. False, and x untouched, if there is none.
  virtual bool last_known_point(std::span<double> x) = 0;
  /// Steps accepted since that point.
  virtual std::uint64_t steps_after_known_point() const { return 0; }
};

/// How sums over the instances are made.
class Plans {
 public:
  virtual ~Plans() = default;
  /// The rung in use for gradients, by name ("gather_recompute"), for the report.
  virtual std::string accumulation() const = 0;
  /// How the batches are laid out and summed, and why.
  virtual PlanRecord plan() const = 0;
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

/// What times and sizes are measured by.
class Measurements {
 public:
  virtual ~Measurements() = default;
  /// Runs one kind of evaluation `warm_ups` + `samples` times with x resident; medians.
  virtual Timing time(KernelKind kind, int warm_ups, int samples) = 0;
  /// One Gauss-Newton step with exactly `iterations` CG iterations on JᵀJ + damping I; x stays
  /// where it is.
  virtual Timing time_step(int iterations, double damping, int samples) = 0;
  /// Bytes a second, read and written, of a copy from memory to memory where the kernels run: the
  /// median of a few copies that fit no cache.
  virtual double copy_rate() = 0;
  /// What the engine's memory is for; uses that take none are left out.
  virtual std::vector<MemoryUse> memory() const = 0;
};

class DampedSteps;
class Elimination;
class GradientSteps;
class LinearSystem;
class NarrowSolve;
class StepGradient;
class StepLengths;

/// Interfaces of one engine beside Engine; null: it has none. An engine around another one names
/// here, and nowhere else, which abilities of the inner one it passes on. The pointers live as long
/// as the engine, and are asked for again after calls that may change where it runs.
///
/// Engines of the backends, and those around them in a Session, have steps, known_point, plans and
/// measurements.
struct Abilities {
  DampedSteps* steps = nullptr;             ///< damped_steps.hpp
  StepLengths* step_lengths = nullptr;      ///< damped_steps.hpp
  LinearSystem* linear_system = nullptr;    ///< damped_steps.hpp
  StepGradient* step_gradient = nullptr;    ///< step_gradient.hpp
  NarrowSolve* narrow_solve = nullptr;      ///< narrow_solve.hpp
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
