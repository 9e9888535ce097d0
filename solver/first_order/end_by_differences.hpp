// The end of a descent of few unknowns, judged by second derivatives that differences of gradients
// give: for costs whose own are not known.
#pragma once

#include "descent.hpp"

#include <span>
#include <vector>

namespace topograd {

/// Times that a descent goes on after something contradicted its end, and what its message says if
/// that was not enough.
inline constexpr int kMostReturns = 3;
inline constexpr const char* kPromisesMore = "; but the gradient promises more";

/// The larger of |x_i| and of the way from the start, by coordinate of a step: where differences
/// begin.
std::vector<double> unknown_sizes(std::span<const double> x, std::span<const double> start,
                                  const Objective& objective);

/// Looks beside the end of a descent that says CONVERGENCE or FAILURE, if it has at most
/// kMostCurved coordinates: at the Newton step, along negative curvature, and at steps in single
/// coordinates. A descent whose unknowns have unlike units ends where one of them has not moved:
/// its gradient is small beside the others, but not beside its own second derivative.
///
/// Moves x to a point whose cost is lower by more than what the solve claims to be left, records
/// the step, and lets `units` learn the second derivatives. Returns true if it has: minimise again.
///
///   sizes  unknown_sizes(), or those of tangents
///
/// Cost: a gradient for each coordinate, some more for one whose gradient hardly changes.
bool goes_on_by_differences(const Objective& objective, std::span<const double> sizes,
                            UnknownScales& units, std::span<double> x, const SolverOptions& options,
                            Summary& summary);

}  // namespace topograd
