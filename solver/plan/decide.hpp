// The one decision about a problem: where its kernels run, where steps are made, and how they are
// solved for.
#pragma once

#include "../../ir/error.hpp"
#include "../../runtime/backend.hpp"
#include "../../runtime/engine/step_elimination.hpp"
#include "../../runtime/hybrid/routing/decision.hpp"
#include "../options.hpp"
#include "step_times.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace topograd {

/// Unknowns up to which a dense factor is an upper bound of a sparse one that may serve to decide.
inline constexpr std::uint64_t kLargestFactorised = 2000;
/// Entries (8 bytes each) and operations of the largest factor that is made unasked, some seconds
/// of work.
inline constexpr double kLargestFactor = 2.5e8;
inline constexpr double kDearestFactor = 3e11;
/// Iterations that a step takes at the least: a factor in the time of these is preferred unseen.
inline constexpr double kFewestIterations = 5;
/// Iterations are chosen where a factor is predicted to take longer by this factor: their number is
/// known less well than a factor's operations.
inline constexpr double kClear = 1.3;
/// Seconds that a step takes beside its linear solve, whatever its size. Loose solutions, which may
/// lead to many more steps, cannot save more than that.
inline constexpr double kTrifle = 3e-5;
/// Operations of a part of a factor up to which iterations are not considered.
inline constexpr double kCheapPart = 1e8;
/// Newton's method takes products where Hessians take so many times longer: only Hessians without
/// negative eigenvalues lead down from everywhere.
inline constexpr double kDearProjection = 5;
/// Seconds of an iteration on a device where only block-Jacobi preconditions it, as measured on an
/// H200 (docs/notes/linear-solvers.md), and bytes a second that are read back from one.
inline constexpr double kDeviceIterationSeconds = 7.5e-5;
inline constexpr double kReadBackRate = 5e9;
/// Seconds of a step on the host for each number of the Jacobian, which it copies to the tangent
/// spaces.
inline constexpr double kTangentSeconds = 2.4e-8;
/// Numbers of the Jacobian below which such steps take less than some milliseconds.
inline constexpr double kManyNumbers = 1e5;
/// Numbers of the largest Jacobian with which iterations are tried, how many at the most, and what
/// they reduce the first system to.
inline constexpr double kLargestTried = 1e7;
inline constexpr double kMostTried = 500;
inline constexpr double kTriedTolerance = 1e-5;
/// Unknowns beyond which no factor is that small: the pattern is not even looked for.
inline constexpr std::uint64_t kLargestAnalysed = 1'000'000;

/// Problems whose Jacobian `automatic` reads back from a device: fits of a few unknowns, which are
/// often too badly conditioned for conjugate gradients (NIST's MGH17 fails with them).
inline constexpr std::uint64_t kLargestReadBack = 32;         ///< unknowns
inline constexpr std::uint64_t kLargestJacobian = 1'000'000;  ///< rows × unknowns, 8 MB
/// Most unknowns for which such a Jacobian serves, and no more than `most`.
constexpr std::uint64_t most_unknowns(std::uint64_t rows, std::uint64_t most) {
  const std::uint64_t fit = rows == 0 ? kLargestJacobian : kLargestJacobian / rows;
  return fit < most ? fit : most;
}
/// Instances × slots among which `automatic` looks for blocks to eliminate on a device: some tenths
/// of a second. On the CPU, the same number of pairs of slots, if a residual reads more unknowns
/// than kWidestSearched.
inline constexpr std::uint64_t kMostSlotsSearched = 8'000'000;
inline constexpr std::uint64_t kWidestSearched = 64;
/// Unknowns from which on it does: fewer are few iterations either way.
inline constexpr std::uint64_t kLeastEliminated = 1000;

using runtime::DeviceFacts;

/// Seconds that a process spends on looking for devices (0.07), opening one and making its first
/// kernels, before it gains anything: 0.13 s of a solve on an H200 open its driver
/// (docs/notes/linear-solvers.md).
inline constexpr double kDeviceStartSeconds = 0.2;

struct MachineFacts {
  bool named = false;                 ///< a device is, or software may be chosen
  std::optional<DeviceFacts> device;  ///< that the options choose, without opening it
  std::optional<runtime::hybrid::Decision> scheduler;  ///< of the CPU and this device
  std::optional<std::string> failure;                  ///< of the device, in the middle of the work
  bool looked_for = false;  ///< this process has looked for devices: another look costs little
  double spent = 0;         ///< seconds of solves of this process that did not look
};

/// Reasons for steps on the host.
struct HostNeeds {
  bool bounds = false, manifolds = false, host_residuals = false;  ///< of the problem
  bool dogleg = false;                                             ///< of the options
  /// The linear solver of the options if it has LinearForm::jacobian, else automatic.
  LinearSolver solver = LinearSolver::automatic;

  bool any() const { return *this != HostNeeds{}; }
  bool are_only_bounds() const { return *this == HostNeeds{.bounds = true}; }
  /// Manifolds, with bounds or without.
  bool are_only_manifolds() const {
    return *this == HostNeeds{.bounds = bounds, .manifolds = true};
  }
  bool operator==(const HostNeeds&) const = default;
};

/// Facts about an Elimination (linear/factor/elimination.hpp).
struct EliminationFacts {
  std::uint64_t blocks = 0;                ///< that are eliminated
  std::uint64_t eliminated = 0, kept = 0;  ///< unknowns
  std::uint64_t reach = 0;
  bool pays = false, remains_wide = false;
};

/// Iterations on the system of the first step, preconditioned by its diagonal, to kTriedTolerance.
struct TriedIterations {
  int most = 0, count = 0;
  bool converged() const { return count <= most; }
};

/// A linear system in all free scalars. Optional facts are expensive: decide() asks for them.
struct SystemFacts {
  std::uint64_t unknowns = 0, rows = 0;
  std::uint64_t slots = 0;   ///< instances × slots of residuals
  std::uint64_t widest = 0;  ///< unknowns of one residual
  StepWork work;             ///< of a step
  bool hinted = false;       ///< blocks to eliminate are given
  std::optional<TriedIterations> iterations;
  std::optional<EliminationFacts> elimination;
  std::optional<runtime::EliminationUse> on_device;  ///< the engine's answer to the elimination
  std::optional<FactorFacts> factor;
  int threads = 1;                                  ///< of the host
  std::optional<runtime::FactorUse> device_factor;  ///< the engine's answer to a factor there

  /// Operations of the dense part of a factor: one residual reads all of its unknowns.
  double widest_operations() const {
    const auto n = static_cast<double>(widest);
    return n * n * n / 3;
  }
};

struct ProblemFacts {
  std::uint64_t instances = 0;    ///< of all residuals that kernels evaluate
  double cpu_seconds = 0;         ///< expected of the whole solve on the CPU; 0: not known
  bool has_kernels = true;        ///< there are such
  bool at_once = false;           ///< a chosen device is waited for: nothing else may serve first
  HostNeeds needs;                ///< of steps
  bool nothing_free = false;      ///< no unknown has a coordinate to move along
  bool engine_manifolds = false;  ///< engines know how to move the blocks on manifolds
  std::optional<SystemFacts> system;

  /// Something asks for steps on the host.
  bool want_host() const { return nothing_free ? needs.host_residuals : needs.any(); }
};

/// The fact that decide() needs to go on.
enum class Fact {
  none,
  device,              ///< MachineFacts::device
  scheduler,           ///< MachineFacts::scheduler
  system,              ///< ProblemFacts::system, where steps are made; the backend is decided
  elimination,         ///< SystemFacts::elimination
  device_elimination,  ///< SystemFacts::on_device
  factor,              ///< SystemFacts::factor
  iterations,          ///< SystemFacts::iterations, iterations_to_try() of them
  device_factor,       ///< SystemFacts::device_factor
};

enum class BackendReason {
  asked_for,
  no_kernels,       ///< every residual runs on the host
  below_threshold,  ///< too few instances
  short_solve,      ///< over on the CPU before a device would have been found and opened
  no_device,
  software_device,  ///< and nobody named it
  no_float64,
  scheduler,          ///< measurements or failures speak against the device
  reaches_threshold,  ///< the only reason of `automatic` for a device
  device_failed,      ///< in the middle of the work
};

struct BackendChoice {
  Backend backend = Backend::cpu;  ///< cpu or vulkan
  BackendReason reason = BackendReason::asked_for;
  bool software = false;          ///< the device is Vulkan on the CPU
  bool emulated_float64 = false;  ///< the device's f64 is by 32-bit integers
  bool may_leave = false;         ///< on a device under `automatic`: the CPU takes over if it fails
  bool cpu_first = false;         ///< the interpreter serves while the device's kernels are made
  /// The device that was asked for runs the kernels of the residuals for the backend cpu, whose
  /// sums are portable.
  bool kernels_on_device = false;
  std::uint64_t instances = 0, threshold = 0;
  double cpu_seconds = 0;  ///< ProblemFacts::cpu_seconds
  Precision precision = Precision::f64;
  std::string device, problem;             ///< the device's name, and what is wrong with it
  runtime::hybrid::Decision measurements;  ///< of BackendReason::scheduler
};

enum class StepBackend { engine, host };

enum class LinearReason {
  nothing_to_solve,
  steps_on_host,   ///< LinearChoice::needs
  from_gradients,  ///< the method solves for no step
  asked_for,       ///< the solver, or what it eliminates
  preconditioner,  ///< of pcg, is asked for
  few_unknowns,    ///< a factor is cheap
  many_unknowns,   ///< a factor takes long
  small_jacobian,  ///< cheap to read back from a device
  wide_residual,   ///< makes a factor take long
  data_on_device,  ///< reading them back takes longer than steps there
  elimination,     ///< of blocks pays, or the device does it
  no_elimination,  ///< the device cannot eliminate these blocks
  mesh,            ///< a wide one, on which a factor takes longer
  no_mesh,         ///< a factor stays small
  penalties,       ///< of constraints take ever more iterations
  fewer_seconds,   ///< of iterations, as predicted
  hessians_dear,   ///< whose negative eigenvalues are removed
  read_back,       ///< from a device: a factor takes less time than iterations there
  factor_cheap,
  factor_dear,
};

struct LinearChoice {
  LinearSolver kind = LinearSolver::pcg;
  LinearReason reason = LinearReason::nothing_to_solve;
  ForcingSequence forcing = ForcingSequence::constant;  ///< what `automatic` means
  bool by_engine = true;    ///< else the engine's Jacobian or Hessian is read
  bool iterates = false;    ///< conjugate gradients on the Schur complement, on the CPU, too
  bool of_hessian = false;  ///< Newton's system
  FactorChoice factor;      ///< of cholesky
  StepSeconds expected;     ///< on the CPU, of solvers that were compared
  HostNeeds needs;
  SystemFacts system;
};

/// Floating-point numbers of a solve.
struct PrecisionChoice {
  Precision point = Precision::f64;   ///< of unknowns, residuals, cost and gradient
  Precision system = Precision::f64;  ///< of the linear system of steps

  bool mixed() const { return point != system; }
};

/// The decision where and how a problem is solved.
struct Plan {
  Fact next = Fact::none;  ///< what has to be known before more is decided
  BackendChoice backend;   ///< decided unless `next` is the device or the scheduler
  PrecisionChoice precision;
  runtime::PreconditionerUse preconditioner;  ///< that engines of the backend are asked for
  StepBackend steps = StepBackend::engine;
  LinearChoice linear;
};

/// Decides as much as the facts allow. Rules come first: a backend that is asked for is taken or
/// throws; `automatic` takes the CPU for few instances, for solves that are expected to end before
/// the process could have found and opened a device, where no device fits, and where the only one
/// is software that was not named; then the scheduler is heard, unless `deterministic` is set.
///
/// The rule for short solves applies until the process has looked for devices. The times of the
/// solves that it kept on the CPU add up: a process loses at most about one kDeviceStartSeconds.
///
/// Engines make steps, except for those that only the host can make: engines know bounds, and
/// devices know manifolds if they solve for the step, by conjugate gradients or a factor there.
///
/// LinearSolver::automatic means
///
///   cholesky  if a factor on the device is asked for
///   pcg       else if a preconditioner is asked for
///   schur     else with a hint
///   device    else cholesky for the smallest problems; schur if it eliminates at least as many
///             unknowns as remain, and these are no mesh; cholesky where a factor on the device
///             takes less time than iterations by block-Jacobi; else pcg
///   CPU       else schur if an elimination pays; else cholesky or pcg, whichever is expected to
///             take less time in a step (step_times.hpp)
///
/// A residual that reads very many unknowns rules cholesky out where nothing asks for it.
///
/// Newton's method uses products for meshes of more than kLargestFactorised unknowns, where damped
/// steps take few iterations and a factor fills up, and where the Hessians of residuals take much
/// longer than products.
///
///   options  resolved, with the chosen method
///
/// Throws Error for a forced device alone: with the device's code, or Unsupported if f64 is asked
/// of one without; and Unsupported where the factor is to be on a device and cannot.
Plan decide(const ProblemFacts& problem, const SolverOptions& options, const MachineFacts& machine);

/// How many iterations Fact::iterations asks for: they take half the time of a factor, as far as
/// that is known.
int iterations_to_try(const SystemFacts& system);

/// True if decide() takes conjugate gradients on the CPU for any residuals, where the engine makes
/// the steps.
bool iterates_anyway(const SolverOptions& options, std::uint64_t unknowns);

/// The solver on the host: `automatic` is schur with a hint or if elimination pays, else cholesky.
LinearSolver host_solver(LinearSolver asked, bool hinted, bool pays);
/// True if the options name schur and block_jacobi: conjugate gradients on the Schur complement, on
/// the CPU, too.
bool iterates_on_schur(const SolverOptions& options);

}  // namespace topograd
