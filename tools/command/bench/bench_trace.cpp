// Traces springs repeatedly.
#include "bench_trace.hpp"

#include "../../problems/springs.hpp"
#include "../peers/peer_inputs.hpp"
#include "measure/measure.hpp"

#include "../../../frontend/problem.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../runtime/cpu/copy_rate.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/model/model.hpp"

#include <nlohmann/json.hpp>

#include <tbb/global_control.h>
#include <tbb/info.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

using problems::Spring;
using problems::SpringGrid;

constexpr std::uint64_t kMostResiduals = 1'000'000'000;
constexpr std::uint64_t kMostResidualsOfPeers = 4'000'000;
constexpr int kPeerSamples = 3;

SpringGrid make_grid(const TraceArguments& arguments) {
  if (!arguments.count) return problems::spring_grid(arguments.width, arguments.shuffle);
  if (*arguments.count < 1 || *arguments.count > kMostResiduals) {
    throw Error(ErrorCode::InvalidArgument, "trace: expected --count in 1 .. " +
                                                std::to_string(kMostResiduals) + ", got " +
                                                std::to_string(*arguments.count));
  }
  // A grid of width W has 3 W² - 4 W + 1 springs.
  const double count = static_cast<double>(*arguments.count);
  const auto width = static_cast<std::uint32_t>(std::ceil(std::sqrt(count / 3) + 2));
  SpringGrid grid = problems::spring_grid(width, arguments.shuffle);
  grid.springs.resize(*arguments.count);
  return grid;
}

/// Bytes of the index and data columns of all batches.
std::uint64_t column_bytes(const Problem& problem) {
  std::uint64_t bytes = 0;
  for (const runtime::Term& term : make_model("trace", problem).model.terms) {
    const ir::Batch& batch = *term.batch;
    bytes += batch.size() * (batch.index_columns() * sizeof(std::uint32_t) +
                             batch.data_columns() * sizeof(double));
  }
  return bytes;
}

void trace_values(const TraceArguments& arguments, SpringGrid& grid,
                  nlohmann::ordered_json& report) {
  std::vector<double> seconds, processor;
  const auto residuals = static_cast<double>(grid.springs.size());
  for (int k = 0; k <= arguments.samples; ++k) {
    Problem problem;
    const Parameters x = problem.add_parameters(grid.x, 3);
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t begin = std::clock();
    add_springs(problem, x, grid.springs);
    if (k > 0) {  // the first run warms the caches
      seconds.push_back(seconds_since(start));
      processor.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    if (k < arguments.samples && (k == 0 || !Interrupts::came())) continue;
    const TraceStatistics statistics = problem.statistics();
    const auto columns = static_cast<double>(column_bytes(problem));
    report["residuals"] = grid.springs.size();
    report["nodes_per_residual"] = static_cast<double>(statistics.nodes_traced) / residuals;
    report["slow_matches"] = statistics.slow_matches;
    report["bytes_per_residual"] = (static_cast<double>(problem.bytes()) - columns) / residuals;
    report["column_bytes_per_residual"] = columns / residuals;
    break;
  }
  const double middle = median(std::move(seconds));
  report["trace_s"] = middle;
  report["residuals_per_s"] = residuals / middle;
  report["residuals_per_cpu_s"] = residuals / median(std::move(processor));
}

void trace_map(const TraceArguments& arguments, SpringGrid& grid, nlohmann::ordered_json& report) {
  std::vector<std::uint32_t> ends;
  std::vector<double> rest;
  for (const Spring& s : grid.springs) {
    if (s.b == Spring::kAnchor) continue;
    ends.insert(ends.end(), {s.a, s.b});
    rest.push_back(s.rest);
  }
  if (rest.empty()) return;
  const auto threads = static_cast<std::size_t>(
      arguments.threads > 0 ? arguments.threads : tbb::info::default_concurrency());
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
  std::vector<double> seconds;
  for (int k = 0; k < arguments.samples && (k == 0 || !Interrupts::came()); ++k) {
    Problem problem;
    const Parameters x = problem.add_parameters(grid.x, 3);
    const auto start = std::chrono::steady_clock::now();
    problem.add_residuals(rest.size(),
                          [&](Element e) { return norm(e.vec3(x, 0) - e.vec3(x, 1)) - e.data(0); },
                          {.indices = ends, .data = rest});
    seconds.push_back(seconds_since(start));
  }
  const double middle = median(std::move(seconds));
  report["map_s"] = middle;
  report["map_residuals_per_s"] = static_cast<double>(rest.size()) / middle;
  report["map_threads"] = threads;
}

/// Times of peers for adding the same springs.
nlohmann::ordered_json run_peers(const TraceArguments& arguments, const SpringGrid& grid) {
  nlohmann::ordered_json peers = nlohmann::ordered_json::array();
  const RunPeer ceres = open_ceres();
  if (!arguments.peers || Interrupts::came() || ceres == nullptr ||
      grid.springs.size() > kMostResidualsOfPeers)
    return peers;
  PeerInput input = springs_input(grid);
  input.evaluate = false;
  std::vector<double> seconds;
  PeerReport report;
  for (int k = 0; k < std::min(arguments.samples, kPeerSamples); ++k) {
    report = {};
    ceres(input, report);
    seconds.push_back(report.build_s);
  }
  const double middle = median(std::move(seconds));
  peers.push_back({{"name", report.name},
                   {"version", report.version},
                   {"libraries", report.libraries},
                   {"threads", 1},
                   {"residuals", grid.springs.size()},
                   {"trace_s", middle},
                   {"residuals_per_s", static_cast<double>(grid.springs.size()) / middle}});
  return peers;
}

}  // namespace

nlohmann::ordered_json run_bench_trace(const TraceArguments& arguments) {
  nlohmann::ordered_json report;
  report["problem"] = "trace";
  SpringGrid grid = make_grid(arguments);
  trace_values(arguments, grid, report);
  trace_map(arguments, grid, report);
  const double rate = runtime::cpu::copy_rate(1);
  const double stored = report["bytes_per_residual"].get<double>() +
                        report["column_bytes_per_residual"].get<double>();
  const auto share = [&](const char* residuals_per_s) {
    return share_of_copy(stored * report.value(residuals_per_s, 0.0), 1e6, rate);
  };
  report["copy_gb_s"] = rate * 1e-9;
  report["share_of_copy"] = share("residuals_per_s");
  report["map_share_of_copy"] = share("map_residuals_per_s");
  report["peers"] = run_peers(arguments, grid);
  return report;
}

}  // namespace topograd::command
