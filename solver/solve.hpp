// solve(): minimises a problem.
#pragma once

#include <topograd/frontend/problem.hpp>
#include <topograd/solver/options.hpp>
#include <topograd/solver/summary.hpp>

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

}  // namespace topograd
