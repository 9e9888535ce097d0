// Traces springs repeatedly.
#include "bench_trace.hpp"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../../api/expression/expression.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../ir/checking/random_program.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../ir/topology/topology.hpp"
#include "../../../runtime/cpu/copy_rate.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/session/session.hpp"
#include "../../problems/springs.hpp"
#include "../peers/peer_inputs.hpp"
#include "measure/measure.hpp"

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

namespace {

constexpr ir::LeafCounts kLeaves = {.parameters = 6, .data = 2, .uniforms = 0, .seeds = 0};
constexpr std::size_t kLeastNodes = 20, kMostNodes = 200;

/// A tree of 20 to 200 nodes that reads a parameter.
ir::Program tree(std::uint64_t seed) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const std::size_t operations = 10 + (seed * 7919 + attempt * 104729) % 120;
    ir::Program program =
        ir::random_program(seed + (attempt << 40),
                           {.operations = operations, .ops = {}, .leaves = kLeaves, .tree = true});
    const bool reads = std::ranges::any_of(
        program.nodes, [](const ir::Node& n) { return n.op == ir::Op::Parameter; });
    if (reads && program.nodes.size() >= kLeastNodes && program.nodes.size() <= kMostNodes)
      return program;
  }
}

void add_trees(Problem& problem, const Parameters& x, const std::vector<ir::Program>& trees) {
  for (const ir::Program& program : trees) {
    std::vector<Value> parameters, data;
    for (std::uint32_t k = 0; k < kLeaves.parameters; ++k) parameters.push_back(x[k]);
    for (std::uint32_t k = 0; k < kLeaves.data; ++k) data.push_back(Value(0.5 + k));
    problem.add_residual(to_values(program, {parameters, data, {}}));
  }
}

void add_compile_times(nlohmann::ordered_json& report, const runtime::EngineStats& stats,
                       double first_ms) {
  report["plan_ms"] = stats.plan_seconds * 1e3;
  report["glsl_ms"] = stats.glsl_ms;
  report["spirv_ms"] = stats.spirv_ms;
  // The rest of the first evaluation is the driver's work at the first dispatch.
  report["pipeline_ms"] = stats.pipeline_ms + std::max(0.0, first_ms - stats.compile_wall_ms);
  report["compile_wall_ms"] = stats.compile_wall_ms;
  report["first_evaluation_ms"] = first_ms;
  report["shaders_compiled"] = stats.shaders_compiled;
  report["shader_cache_hits"] = stats.shader_cache_hits;
}

/// Adds the rate of a compiled evaluation, relative to the copy bandwidth.
void add_rates(nlohmann::ordered_json& report, runtime::Engine& engine, const runtime::Model& model,
               codegen::Precision precision, int samples) {
  constexpr runtime::Pass kKind = runtime::Pass::residual;
  BenchTimes times(engine.abilities().measurements->copy_rate(), runtime::Traffic(model, precision),
                   samples, {});
  times.add(std::string(runtime::name(kKind)),
            engine.abilities().measurements->time(kKind, kWarmUps, samples),
            times.traffic().bytes(kKind));
  times.write(report);
}

}  // namespace

nlohmann::ordered_json run_bench_topologies(const TopologiesArguments& arguments) {
  const std::uint64_t count = arguments.count;
  std::vector<ir::Program> trees;
  std::size_t nodes = 0;
  for (std::uint64_t k = 0; k < count; ++k) {
    trees.push_back(tree(arguments.seed * 1'000'000 + k));
    nodes += trees.back().nodes.size();
  }
  std::vector<double> values = {0.3, 0.7, 1.1, 1.6, 2.2, 2.9};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const auto traced = std::chrono::steady_clock::now();
  add_trees(problem, x, trees);
  const double trace_ms = 1e3 * seconds_since(traced);
  const auto canonical = std::chrono::steady_clock::now();
  for (const ir::Program& program : trees) ir::canonicalize(program);
  const double canonicalise_ms = 1e3 * seconds_since(canonical);

  const SolverOptions options = resolved(to_options(arguments.solver));
  const ProblemModel model = make_model("bench", problem);
  const Session session = open_session(model, options, {.at_once = true});
  runtime::Engine& engine = session.engine();
  engine.set_point(values);
  std::vector<double> residuals(model.model.rows);
  const auto first = std::chrono::steady_clock::now();
  engine.residuals(residuals);
  const double first_ms = 1e3 * seconds_since(first);

  nlohmann::ordered_json report;
  report["problem"] = "topologies";
  report["count"] = count;
  report["topologies"] = model.model.terms.size();
  report["nodes"] = nodes;
  report["backend"] = name(engine.backend());
  report["device"] = engine.device();
  report["precision"] = name(options.precision);
  report["trace_ms"] = trace_ms;
  report["canonicalise_ms"] = canonicalise_ms;
  add_compile_times(report, engine.stats(), first_ms);
  add_rates(report, engine, model.model, options.precision, arguments.samples);
  report["share_of_copy"]["trace"] = report["trace_share_of_copy"] =
      share_of_copy(static_cast<double>(problem.bytes()), trace_ms * 1e3,
                    report["copy_gb_s"].get<double>() * 1e9);
  report["peers"] = nlohmann::ordered_json::array();
  return report;
}

}  // namespace topograd::command
