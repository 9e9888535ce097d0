// How long many different topologies take to trace and to compile.
#pragma once

#include "command/solver_arguments.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace topograd::command {

/// Traces `count` random trees of 20 to 200 nodes into one problem, opens the backend, and
/// evaluates all residuals once. Keys: count, topologies (different ones that were found), nodes,
/// trace_ms (building and matching), canonicalise_ms (the same programs once more, alone), plan_ms,
/// glsl_ms, spirv_ms, pipeline_ms (with one warm-up dispatch of each kernel; sums over the threads
/// that compiled), compile_wall_ms, first_evaluation_ms, backend, device.
nlohmann::ordered_json run_bench_topologies(std::uint64_t count, std::uint64_t seed,
                                            const SolverArguments& arguments);

}  // namespace topograd::command
