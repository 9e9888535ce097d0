// solve() and Solver: minimise a problem, once or repeatedly.
#pragma once

#include "../frontend/problem.hpp"
#include "../runtime/engine/engine_stats.hpp"
#include "evaluator.hpp"
#include "options.hpp"
#include "solve_group.hpp"
#include "summary.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace topograd {

/// Minimises ½ Σ r² and the energies over the problem's parameters, from their present values.
///
/// The caller's parameters are written once, at the end, with the best accepted point, even if an
/// error or a callback's exception ends the solve. They are not written if no step was accepted;
/// fixed scalars never are. All work runs on one backend, chosen at the start. Under `automatic`
/// the CPU takes over from a failing device, at the last accepted point that had reached the host,
/// and the summary says so.
///
/// Throws Error: EmptyProblem; NonFinite, with its name, if a start value, a residual or a
/// derivative at the start is NaN or infinite; InvalidArgument for options out of range, if the
/// problem is already being solved, as in a callback, and if a callback destroys it; Unsupported,
/// with the energy's label, if the problem has energies and the method is for sums of squares; the
/// errors of a forced backend and of a callback.
Summary solve(Problem& problem, const SolverOptions& options = {});

/// Results of warm_up(). Counts and times are those of EngineCounts and MakingTimes.
struct WarmUp : runtime::EngineCounts, runtime::MakingTimes {
  std::string backend, device;     ///< of the later solve; "cpu" compiles nothing
  std::string why;                 ///< reason for the backend, one line
  std::uint64_t device_bytes = 0;  ///< taken from the driver
  double seconds = 0;
};

/// Compiles and allocates the shaders, pipelines and pools of device memory that a solve with these
/// options needs. Nothing is evaluated, except on a software device, which compiles a kernel when
/// it first runs. No callback is called, and the parameters do not change. The next solve with the
/// same topologies, method, precision and linear solver compiles nothing but the few kernels of a
/// two-level preconditioner, in this process and in others with the same disk cache.
///
/// Under `automatic` the backend is chosen as in the solve: a problem that stays on the CPU has
/// nothing to compile.
///
/// Throws the errors of solve() before its first step.
WarmUp warm_up(Problem& problem, const SolverOptions& options = {});

/// Solves one problem repeatedly: each solve reuses the data of the one before, on either backend.
/// Data, uniforms, losses, fixed flags and the parameters' values may change in between at the cost
/// of the change. After residuals or parameters were added or removed the next solve() sets up
/// again, with the kernels of known topologies. Each solve starts at the parameters' present values
/// and gives the result of solve(problem, options).
///
/// One thread at a time. If a callback destroys its own Solver, solve() throws
/// Error{InvalidArgument} as soon as the callback has returned.
class Solver {
 public:
  ///   problem  must outlive the Solver
  ///
  /// Throws Error{InvalidArgument} for options out of range. Cost: none; the first solve() sets up.
  ///
  ///   make   makes the engine in the place of the interpreter; empty: the interpreter is used
  ///   group  the processes that make this solve together, and outlives the Solver; null: this one
  explicit Solver(Problem& problem, const SolverOptions& options = {}, const MakeEngine& make = {},
                  SolveGroup* group = nullptr);
  Solver(Solver&&) noexcept;
  Solver& operator=(Solver&&) noexcept;
  ~Solver();

  /// Like topograd::solve(); counters and times of the summary are this solve's. After an Error the
  /// next call sets up again.
  Summary solve();
  /// Like topograd::warm_up(), for the solves of this Solver, which also reuse buffers and layouts.
  WarmUp warm_up();
  /// Like Evaluator::evaluate(), with the losses of the problem and the engine of the solves: what
  /// the first call sets up, the next solve uses. The parameters do not change.
  ///
  ///   x  problem.parameter_count() numbers
  ///
  /// Throws the errors of solve() before its first step, Error{Shape} for another number of them,
  /// and Error{Unsupported} if the problem has constraints.
  Evaluation evaluate(Numbers x, const Wanted& wanted = {});

 private:
  struct Impl;
  void end() noexcept;

  std::shared_ptr<Impl> impl_;  // shared with a running solve()
};

}  // namespace topograd
