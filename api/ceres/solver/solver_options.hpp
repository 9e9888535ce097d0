// Conversion of Solver::Options to topograd::SolverOptions.
#pragma once

#include "solver.hpp"

#include <string>
#include <vector>

namespace ceres::internal {

/// Converts all options except callbacks.
///
///   entries  number of entries of a dense Jacobian: rows times columns
topograd::SolverOptions Lower(const Solver::Options& options, double entries);

/// True if Options::linear_solver_ordering determines the eliminated blocks.
bool TakesOrdering(const Solver::Options& options);

/// Names of options that differ from their defaults and have no effect.
std::vector<std::string> OptionsWithoutEffect(const Solver::Options& options);

/// Ceres' name of the linear solver that ran when `given` was requested.
LinearSolverType UsedLinearSolver(LinearSolverType given, topograd::LinearSolver used);

}  // namespace ceres::internal
