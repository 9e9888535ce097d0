// How many residuals a second are traced, matched and stored.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>

namespace topograd::command {

struct TraceArguments {
  std::uint32_t width = 1000;            ///< vertices along a side of the grid of springs
  std::optional<std::uint64_t> shuffle;  ///< as of problems::springs()
  std::optional<std::uint64_t> count;    ///< the first so many springs of a grid that has them
  int samples = 20;
  int threads = 0;    ///< of the map front door, 0 = all
  bool peers = true;  ///< run those that are there
};

/// Traces springs into new problems, through plain values on one thread and through the map front
/// door. Keys: residuals, nodes_per_residual (of the tape), trace_s and residuals_per_s (medians),
/// bytes_per_residual (of the problem, beyond its columns), column_bytes_per_residual (indices and
/// data), residuals_per_cpu_s (by processor time, for machines that others use too), slow_matches,
/// map_residuals_per_s, map_threads, copy_gb_s (of one thread), share_of_copy and
/// map_share_of_copy (of what is stored), and peers, a list of {name, version, libraries, threads,
/// residuals, trace_s, residuals_per_s} for adding as many residual blocks, up to four million.
nlohmann::ordered_json run_bench_trace(const TraceArguments& arguments);

}  // namespace topograd::command
