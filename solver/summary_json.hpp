// The summary of a solve as JSON.
#pragma once

#include "summary.hpp"

#include <string>

namespace topograd {

/// One object: initial_cost, final_cost, iterations (accepted + rejected), termination, message,
/// backend, device, why, precision, topologies [{hash, name, instances, outputs}], unknowns,
/// residuals, left_out, degrees_of_freedom, build_s, plan_s, compile_ms (the sum of glsl, spirv and
/// pipeline, which are also there), solve_s, counters, and history [{cost, gradient_norm,
/// step_norm, radius, linear_iterations, step_time_s, time_s (since the start), ...}]. Numbers that
/// are not finite are null.
///
///   indent  spaces per level; -1 = one line
std::string to_json(const Summary& summary, int indent = 2);

}  // namespace topograd
