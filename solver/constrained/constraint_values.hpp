// c and its derivatives as the user wrote constraints, without penalties and barriers.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../model/model.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace topograd {

/// c of all rows of constraints, where the engine's kernels run, in their precision.
///
///   first_row  of constraints, in the model
///   x          the point
///
/// Cost: a pass over the constraints, and a readback of their values.
std::vector<double> constraint_values(const ProblemModel& model, const runtime::Engine& engine,
                                      std::uint64_t first_row, std::span<const double> x);

/// ∂c of the constraints of one term: [(instance * outputs + output) * slots + slot].
std::vector<double> constraint_jacobian(const ProblemModel& model, const runtime::Engine& engine,
                                        std::size_t term, std::span<const double> x);

/// Number of rows of each instance of a term of constraints.
std::size_t constraint_outputs(const ProblemModel& model, std::size_t term);

}  // namespace topograd
