// Solver::Options as topograd::SolverOptions.
#pragma once

#include "solver.hpp"

#include <string>
#include <vector>

namespace ceres::internal {

/// Everything but callbacks.
///
///   entries  of a dense Jacobian: rows times columns
topograd::SolverOptions Lower(const Solver::Options& options, double entries);

/// Whether Options::linear_solver_ordering says what is eliminated.
bool TakesOrdering(const Solver::Options& options);

/// Names of options that differ from their default and have no effect.
std::vector<std::string> OptionsWithoutEffect(const Solver::Options& options);

/// The linear solver in Ceres' words that ran where `given` was asked for.
LinearSolverType UsedLinearSolver(LinearSolverType given, topograd::LinearSolver used);

}  // namespace ceres::internal
