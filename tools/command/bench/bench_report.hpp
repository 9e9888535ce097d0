// Benchmark report of one problem on one backend.
#pragma once

#include "../arguments/shared_arguments.hpp"
#include "../input/named_problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace topograd::command {

struct BenchArguments {
  ProblemArguments problem;
  SolverArguments solver;
  int samples = 20;               ///< per time
  std::vector<std::string> only;  ///< names of the times to measure; empty: all
  bool peers = true;              ///< run available peers
  bool check = true;              ///< compare the gradient with the scalar evaluator's
  bool orders = false;            ///< only compare with and without a locality order
};
/// Adds --samples, --only, --no-peers, --no-check and --orders.
void add_bench_options(Command app, BenchArguments& arguments);

/// Builds the problem, opens the backend, and measures. Keys: instances, topologies, build_s,
/// plan_s, glsl_ms, spirv_ms, pipeline_ms (with one warm-up dispatch), residual_us, jacobian_us
/// (residuals and Jacobian), gradient_us, cost_gradient_us, values_us (with the residuals),
/// jtjp_us, step100_us, evaluation_us (cost and gradient at a point from the host),
/// fresh_evaluation_us (the same with a new engine), each with the wall time as ..._wall_us,
/// initial_cost, device, backend, precision, accumulation, gradient_relative_error: ‖g − g₆₄‖ /
/// ‖g₆₄‖, where g₆₄ is from the scalar evaluator in f64 at x and data rounded to the precision.
/// Times are medians after 3 warm-ups.
///
/// Also copy_gb_s, the rate at which the backend copies memory (10⁹ bytes read and written per
/// second), and for each time ..._bytes, the bytes that it must move at least
/// (runtime/engine/traffic.hpp), and ..._share_of_copy, these bytes over the time, over that rate;
/// again in share_of_copy. host_bytes and device_bytes with memory, a list of {use, host, device},
/// and its sums host_bytes_explained and device_bytes_explained. peers: {name, version, ...} with
/// the keys that the peer measures.
///
/// With `orders`, measures only `orders`: evaluations with the order of the plan and without.
nlohmann::ordered_json run_bench(const BenchArguments& arguments);

}  // namespace topograd::command
