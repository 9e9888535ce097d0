// The table of problems of Hock and Schittkowski, solved and compared with what the book says.
#pragma once

#include "../../solver/options.hpp"

#include <cstddef>

namespace topograd::test {

/// Solves all problems of data/hock_schittkowski.json with these options. f* and x* must be right
/// to 1e-6, the KKT residuals at most 1e-8.
void check_hock_schittkowski(const SolverOptions& options);

/// Solves the problems in other units of the cost and of all unknowns. No solve may say CONVERGENCE
/// elsewhere than at the minimum, or INFEASIBLE; `least` must be solved.
void check_units(const SolverOptions& options, std::size_t least);

/// The same for those with inequalities, by Method::barrier from starts within: the published ones
/// or, where these are outside, those of the column "interior". Every point that a solve visits
/// must be within.
void check_barrier(SolverOptions options);

}  // namespace topograd::test
