// solve() and Solver: minimise a problem, once or again and again.
#pragma once

#include "../frontend/problem.hpp"
#include "../runtime/engine/engine_stats.hpp"
#include "options.hpp"
#include "summary.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace topograd {

/// Minimises ½ Σ r² and the energies over the problem's parameters, from the values that they have.
///
/// The caller's parameters are written once, at the end, with the best accepted point: also where
/// an error or a callback's exception ends the solve. Where no step was accepted they are not
/// touched; constant scalars never are. All work runs on one backend, chosen at the start; under
/// `automatic` the CPU takes over from a device that fails in between, at the last accepted point
/// that had reached the host, and the summary says so.
///
/// Throws Error: EmptyProblem; NonFinite if a start value, a residual or a derivative at the start
/// is NaN or infinite (names it); InvalidArgument for options out of range; Unsupported, with the
/// energy's label, if the problem has energies and the method is for sums of squares; what a forced
/// backend throws; what a callback throws; and InvalidArgument if the problem is being solved
/// already, as in a callback, or ends in one.
Summary solve(Problem& problem, const SolverOptions& options = {});

/// What warm_up() made, or found made. Counts and times are those of EngineCounts and MakingTimes.
struct WarmUp : runtime::EngineCounts, runtime::MakingTimes {
  std::string backend, device;     ///< of the solve that comes; "cpu" compiles nothing
  std::string why;                 ///< why it runs there, one line
  std::uint64_t device_bytes = 0;  ///< taken from the driver
  double seconds = 0;
};

/// Makes all that a solve with these options would compile, without solving: shaders, pipelines and
/// the pools of device memory. Nothing is evaluated (a software device compiles a kernel when it
/// first runs: there each runs once, on the start values), no callback is called, and the
/// parameters stay as they are. The next solve of such a problem compiles nothing, in this process
/// and in others that have the same disk cache. Its numbers may differ; its topologies, method,
/// precision and linear solver are the same. One exception: a two-level preconditioner is planned
/// from a point of the solve, which makes that preconditioner's few kernels where it makes one.
///
/// Under `automatic` the place is chosen as by the solve: a problem that stays on the CPU has
/// nothing to compile.
///
/// Throws what solve() throws before its first step.
WarmUp warm_up(Problem& problem, const SolverOptions& options = {});

/// Solves one problem again and again, while its numbers change: what a solve has made stays for
/// the next one, on the CPU and on a device. Data, uniforms, losses, constant flags and the
/// parameters' values may change in between for the price of what changed; after residuals or
/// parameters were added or removed the next solve() sets up anew, with the kernels of known
/// topologies. Each solve starts from the values that the parameters have, and ends where
/// solve(problem, options) would.
///
/// One thread at a time. Where a Solver ends inside of one of its own callbacks, its solve() throws
/// Error{InvalidArgument} as soon as the callback has returned.
class Solver {
 public:
  ///   problem  outlives the Solver
  ///
  /// Throws Error{InvalidArgument} for options out of range. Cost: none; the first solve() sets up.
  explicit Solver(Problem& problem, const SolverOptions& options = {});
  Solver(Solver&&) noexcept;
  Solver& operator=(Solver&&) noexcept;
  ~Solver();

  /// As topograd::solve(); counters and times of the summary are this solve's. After an Error the
  /// next call sets up anew.
  Summary solve();
  /// As topograd::warm_up(), for the solves of this Solver, which take over buffers and layouts,
  /// too.
  WarmUp warm_up();

 private:
  struct Impl;
  void end() noexcept;

  std::shared_ptr<Impl> impl_;  // shared with a solve() that is under way
};

}  // namespace topograd
