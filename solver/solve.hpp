// solve() and Solver: minimise a problem, once or again and again.
#pragma once

#include <topograd/frontend/problem.hpp>
#include <topograd/solver/options.hpp>
#include <topograd/solver/summary.hpp>

#include <memory>

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
/// backend throws; and what a callback throws.
Summary solve(Problem& problem, const SolverOptions& options = {});

/// Solves one problem again and again, while its numbers change: what a solve has made stays for
/// the next one, on the CPU and on a device. Data, uniforms, losses, constant flags and the
/// parameters' values may change in between for the price of what changed; after residuals or
/// parameters were added or removed the next solve() sets up anew, with the kernels of known
/// topologies. Each solve starts from the values that the parameters have, and ends where
/// solve(problem, options) would.
///
/// One thread at a time.
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

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
