// Measures how many residuals per second are traced, matched and stored.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>

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

}  // namespace topograd::command
