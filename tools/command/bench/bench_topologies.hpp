// Measures tracing and compilation of many different topologies.
#pragma once

#include "../arguments/solver_arguments.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace topograd::command {

struct TopologiesArguments {
  std::uint64_t count = 100, seed = 1;  ///< of the trees
  int samples = 20;                     ///< per time that can be measured repeatedly
  SolverArguments solver;
};

/// Traces `count` random trees of 20 to 200 nodes into one problem, opens the backend, and
/// evaluates all residuals once. Keys: count, topologies (number of different ones), nodes,
/// trace_ms (building and matching), canonicalise_ms (for the same programs alone), plan_ms,
/// glsl_ms, spirv_ms, pipeline_ms (with one warm-up dispatch of each kernel; sums over the
/// compiling threads), compile_wall_ms, first_evaluation_ms, backend, device, residual_us (all
/// residuals, once compiled) with residual_wall_us and residual_bytes, copy_gb_s and, for times
/// with known bytes, share_of_copy: trace (stored bytes) and residual. peers is empty, because no
/// peer compiles.
nlohmann::ordered_json run_bench_topologies(const TopologiesArguments& arguments);

}  // namespace topograd::command
