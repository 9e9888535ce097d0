// A look at every solve of the process, for tests.
#pragma once

#include "../../frontend/problem.hpp"
#include "../options.hpp"
#include "../summary.hpp"

#include <atomic>

namespace topograd {

/// Called at the end of each solve on the thread that called it, after the caller's parameters were
/// written. Solves with an engine of the caller's (MakeEngine) and those of several processes are
/// left out.
///
///   options  resolved; those of the inner minimisations if there are constraints
using AfterSolve = void (*)(const Problem& problem, const SolverOptions& options,
                            const Summary& summary);
inline std::atomic<AfterSolve> after_solve = nullptr;  ///< null: nothing is called

}  // namespace topograd
