// Measures how many residuals per second are traced, matched and stored.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "../arguments/shared_arguments.hpp"

namespace topograd::command {

struct TraceArguments {
  std::uint32_t width = 1000;            ///< vertices along a side of the grid of springs
  std::optional<std::uint64_t> shuffle;  ///< as for problems::springs()
  std::optional<std::uint64_t> count;    ///< number of springs, from a grid with at least as many
  int samples = 20;
  int threads = 0;    ///< of add_residuals(), 0 = all
  bool peers = true;  ///< run available peers
};

/// Traces springs into new problems, by add_residual() on one thread and by add_residuals(). Keys:
/// residuals, nodes_per_residual (on the tape), trace_s and residuals_per_s (medians),
/// bytes_per_residual (of the problem, without its columns), column_bytes_per_residual (indices and
/// data), residuals_per_cpu_s (by processor time, for machines with other load), slow_matches,
/// map_residuals_per_s, map_threads, copy_gb_s (on one thread), share_of_copy and map_share_of_copy
/// (of the stored bytes), and peers, a list of {name, version, libraries, threads, residuals,
/// trace_s, residuals_per_s} for adding the same number of residual blocks, up to four million.
nlohmann::ordered_json run_bench_trace(const TraceArguments& arguments);

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
