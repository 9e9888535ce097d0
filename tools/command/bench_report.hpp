// Figures of one problem on one backend.
#pragma once

#include "command/named_problem.hpp"
#include "command/solver_arguments.hpp"

#include <nlohmann/json_fwd.hpp>

namespace topograd::command {

struct BenchArguments {
  ProblemArguments problem;
  SolverArguments solver;
};

/// Builds the problem, opens the backend, and measures. Keys: instances, topologies, build_s,
/// plan_s, glsl_ms, spirv_ms, pipeline_ms (with one warm-up dispatch), residual_us, jacobian_us
/// (residuals and Jacobian), gradient_us, jtjp_us, step100_us, each with the wall time as
/// ..._wall_us, initial_cost, device, backend, precision, accumulation, gradient_relative_error: ‖g
/// − g₆₄‖ / ‖g₆₄‖ against the scalar evaluator in f64 at x and data rounded to the precision. Times
/// are medians of 20 after 3 warm-ups.
nlohmann::ordered_json run_bench(const BenchArguments& arguments);

}  // namespace topograd::command
