// How long many different topologies take to trace and to compile.
#pragma once

#include "../arguments/solver_arguments.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace topograd::command {

struct TopologiesArguments {
  std::uint64_t count = 100, seed = 1;  ///< of the trees
  int samples = 20;                     ///< of each time that can be taken again
  SolverArguments solver;
};

/// Traces `count` random trees of 20 to 200 nodes into one problem, opens the backend, and
/// evaluates all residuals once. Keys: count, topologies (different ones that were found), nodes,
/// trace_ms (building and matching), canonicalise_ms (the same programs once more, alone), plan_ms,
/// glsl_ms, spirv_ms, pipeline_ms (with one warm-up dispatch of each kernel; sums over the threads
/// that compiled), compile_wall_ms, first_evaluation_ms, backend, device, residual_us (all of them
/// once compiled) with residual_wall_us and residual_bytes, copy_gb_s and, of times whose bytes are
/// known, share_of_copy: trace (what is stored) and residual. peers is empty: of those that there
/// are none compiles.
nlohmann::ordered_json run_bench_topologies(const TopologiesArguments& arguments);

}  // namespace topograd::command
