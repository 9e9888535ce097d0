// topograd bench: times of evaluations, of a step and of tracing, memory, and other solvers.
#include "../../../api/expression/expression.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../ir/checking/random_program.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../ir/topology/topology.hpp"
#include "../../../runtime/cache/content_hash.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../../runtime/model/model.hpp"
#include "../../../runtime/order/order.hpp"
#include "../../../runtime/plan/record/plan_record.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/options.hpp"
#include "../../../solver/session/session.hpp"
#include "../../check/programs/gradients.hpp"
#include "../../problems/springs.hpp"
#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"
#include "../arguments/shared_arguments.hpp"
#include "../input/named_problem.hpp"
#include "../peers/peer.hpp"
#include "../peers/peer_inputs.hpp"
#include "measure/measure.hpp"
#include "ops/bench_ops.hpp"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace topograd::command {
namespace {

struct TraceArguments {
  std::uint32_t width = 1000;            ///< vertices along a side of the grid of springs
  std::optional<std::uint64_t> shuffle;  ///< as for problems::springs()
  std::optional<std::uint64_t> count;    ///< number of springs, from a grid with at least as many
  int samples = 20;
  int threads = 0;    ///< of add_residuals(), 0 = all
  bool peers = true;  ///< run available peers
};

struct TopologiesArguments {
  std::uint64_t count = 100, seed = 1;  ///< of the trees
  int samples = 20;                     ///< per time that can be measured repeatedly
  SolverArguments solver;
};

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
nlohmann::ordered_json run_trace_peers(const TraceArguments& arguments, const SpringGrid& grid) {
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

/// Traces springs into new problems, by add_residual() on one thread and by add_residuals(). Keys:
/// residuals, nodes_per_residual (on the tape), trace_s and residuals_per_s (medians),
/// bytes_per_residual (of the problem, without its columns), column_bytes_per_residual (indices and
/// data), residuals_per_cpu_s (by processor time, for machines with other load), slow_matches,
/// map_residuals_per_s, map_threads, copy_gb_s (on one thread), share_of_copy and map_share_of_copy
/// (of the stored bytes), and peers, a list of {name, version, libraries, threads, residuals,
/// trace_s, residuals_per_s} for adding the same number of residual blocks, up to four million.
nlohmann::ordered_json run_bench_trace(const TraceArguments& arguments) {
  nlohmann::ordered_json report;
  report["problem"] = "trace";
  SpringGrid grid = make_grid(arguments);
  trace_values(arguments, grid, report);
  trace_map(arguments, grid, report);
  runtime::cpu::Pool one_thread(1);
  const double rate = runtime::cpu::copy_rate(one_thread);
  const double stored = report["bytes_per_residual"].get<double>() +
                        report["column_bytes_per_residual"].get<double>();
  const auto share = [&](const char* residuals_per_s) {
    return share_of_copy(stored * report.value(residuals_per_s, 0.0), 1e6, rate);
  };
  report["copy_gb_s"] = rate * 1e-9;
  report["share_of_copy"] = share("residuals_per_s");
  report["map_share_of_copy"] = share("map_residuals_per_s");
  report["peers"] = run_trace_peers(arguments, grid);
  return report;
}

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

/// Traces `count` random trees of 20 to 200 nodes into one problem, opens the backend, and
/// evaluates all residuals once. Keys: count, topologies (number of different ones), nodes,
/// trace_ms (building and matching), canonicalise_ms (for the same programs alone), plan_ms,
/// glsl_ms, spirv_ms, pipeline_ms (with one warm-up dispatch of each kernel; sums over the
/// compiling threads), compile_wall_ms, first_evaluation_ms, backend, device, residual_us (all
/// residuals, once compiled) with residual_wall_us and residual_bytes, copy_gb_s and, for times
/// with known bytes, share_of_copy: trace (stored bytes) and residual. peers is empty, because no
/// peer compiles.
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

}  // namespace

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

namespace {

using nlohmann::ordered_json;
using runtime::Pass;

constexpr int kSamplesOfOne = 3;

Session open_with(const char* order, const ProblemModel& model, const SolverOptions& options,
                  std::span<const double> x) {
  platform::set_environment(runtime::kOrderVariable, order);
  Session session = open_session(model, options, {.at_once = true});
  session.engine().set_point(x);
  return session;
}

ordered_json time_pairs(runtime::Engine& found, runtime::Engine& kept, Pass pass, int pairs) {
  const auto time = [&](runtime::Engine& engine) {
    return engine.abilities().measurements->time(pass, 1, kSamplesOfOne).device_us;
  };
  time(found), time(kept);  // compiles
  std::vector<double> found_us, kept_us, ratios;
  for (int k = 0; k < pairs; ++k) {
    // The order of the two alternates, because caches and clocks change between timings.
    double of_found = 0;
    if (k % 2 == 0) of_found = time(found);
    const double of_kept = time(kept);
    if (k % 2 != 0) of_found = time(found);
    found_us.push_back(of_found);
    kept_us.push_back(of_kept);
    ratios.push_back(of_found / of_kept);
  }
  return {{"found_us", median(std::move(found_us))},
          {"kept_us", median(std::move(kept_us))},
          {"ratio", median(std::move(ratios))}};
}

/// Times evaluations on two engines alternately, with the order that the plan finds and without.
///
///   x      point of the evaluations
///   pairs  timings of each evaluation, >= 1
///
/// Returns {reordered: true if an order was found and is used, pairs, and for residual, jacobian,
/// gradient and jtjp, or cost, gradient and hvp of energies, {found_us, kept_us: medians, ratio:
/// median of found / kept over the pairs}}.
ordered_json compare_orders(const ProblemModel& model, const SolverOptions& options,
                            std::span<const double> x, int pairs) {
  const Session kept = open_with(runtime::kKeptOrder, model, options, x);
  const Session found = open_with(runtime::kFoundOrder, model, options, x);
  ordered_json report;
  // The interpreter does not reorder blocks.
  report["reordered"] = found.engine().backend() == runtime::Backend::vulkan &&
                        !runtime::find_order(model.model).identity();
  report["pairs"] = pairs;
  const bool rows = model.model.rows > 0;
  const auto passes = rows ? std::vector{Pass::residual, Pass::jacobian, Pass::gradient, Pass::jtjp}
                           : std::vector{Pass::cost, Pass::gradient, Pass::hvp};
  for (const Pass pass : passes) {
    if (Interrupts::came()) break;
    report[std::string(runtime::name(pass))] =
        time_pairs(found.engine(), kept.engine(), pass, pairs);
  }
  return report;
}

constexpr std::uint64_t kMostRows = 4'000'000;
constexpr std::uint64_t kMostRowsOfSteps = 3'100'000;

ordered_json peer_json(const PeerReport& peer, int threads, const runtime::Traffic& traffic,
                       double copy_rate) {
  ordered_json json;
  json["name"] = peer.name;
  json["version"] = peer.version;
  json["libraries"] = peer.libraries;
  json["threads"] = threads;
  json["precision"] = "f64";
  json["build_s"] = peer.build_s;
  json["initial_cost"] = peer.initial_cost;
  json["copy_gb_s"] = copy_rate * 1e-9;
  const auto add = [&](const std::string& name, double us, std::uint64_t bytes) {
    if (us <= 0) return;
    json[name + "_us"] = us;
    json["share_of_copy"][name] = json[name + "_share_of_copy"] =
        share_of_copy(static_cast<double>(bytes), us, copy_rate);
  };
  add("residual", peer.residual_us, traffic.bytes(Pass::residual));
  add("jacobian", peer.jacobian_us, traffic.bytes(Pass::jacobian));
  add("evaluate_jacobian", peer.evaluate_jacobian_us, traffic.bytes(Pass::jacobian));
  add("gradient", peer.gradient_us, traffic.bytes(Pass::gradient));
  add("step100", peer.step100_us, traffic.step_bytes(kStepIterations));
  return json;
}

/// Runs the peers whose libraries are in the program's folder, for springs, arap and smooth with up
/// to four million rows, in f64 on the CPU. Returns a list of {name, version, libraries, threads,
/// build_s, initial_cost, copy_gb_s, ..._us, ..._share_of_copy, share_of_copy}, empty for other
/// problems.
///
///   model  model of the problem that `arguments` select
ordered_json run_peers(const BenchArguments& arguments, const runtime::Model& model) {
  ordered_json peers = ordered_json::array();
  if (model.rows > kMostRows || Interrupts::came()) return peers;
  const RunPeer ceres = open_ceres();
  if (ceres == nullptr || arguments.problem.name == "bundle") return peers;
  std::optional<PeerInput> input = peer_input(arguments.problem);
  if (!input) return peers;
  input->threads = peer_threads(arguments.solver);
  input->step = model.rows <= kMostRowsOfSteps && arguments.problem.name != "developable" &&
                (arguments.only.empty() ||
                 std::ranges::find(arguments.only, "step100") != arguments.only.end());
  PeerReport report;
  ceres(*input, report);
  runtime::cpu::Pool pool(input->threads);
  peers.push_back(peer_json(report, input->threads,
                            runtime::Traffic(model, codegen::Precision::f64),
                            runtime::cpu::copy_rate(pool)));
  return peers;
}

constexpr double kStepDamping = 1e-3;

/// Residuals have Jacobians and least-squares steps; energies have Hessian products.
void measure(BenchTimes& times, runtime::Engine& engine, const runtime::Model& model) {
  const auto time = [&](Pass pass) {
    const std::string name(runtime::name(pass));
    if (times.wants(name))
      times.add(name, engine.abilities().measurements->time(pass, kWarmUps, times.samples()),
                times.traffic().bytes(pass));
  };
  const bool rows = model.rows > 0;
  if (rows) time(Pass::residual);
  time(Pass::cost);
  if (rows) time(Pass::jacobian);
  time(Pass::gradient);
  time(Pass::cost_gradient);
  if (rows) time(Pass::values);
  if (rows) time(Pass::jtjp);
  if (rows && times.wants("step100")) {
    times.add(
        "step100",
        engine.abilities().measurements->time_step(kStepIterations, kStepDamping, times.samples()),
        times.traffic().step_bytes(kStepIterations));
  }
  const auto is_energy = [](const runtime::Term& term) { return term.energy; };
  if (std::any_of(model.terms.begin(), model.terms.end(), is_energy)) time(Pass::hvp);
}

/// Cost and gradient at a point that the host gives, read by the host: the cost for a minimiser
/// outside of the library, with and without persistent buffers.
void measure_evaluations(BenchTimes& times, runtime::Engine& engine, const ProblemModel& model,
                         const SolverOptions& options, std::span<const double> x) {
  constexpr int kFreshSamples = 5;
  std::vector<double> gradient(x.size());
  const auto evaluate = [&](runtime::Engine& where) {
    where.set_point(x);
    double cost = 0;
    runtime::evaluate(where, {.cost = &cost, .gradient = gradient});
  };
  const std::uint64_t bytes = times.traffic().bytes(Pass::cost_gradient);
  if (times.wants("evaluation"))
    times.add("evaluation", times.wall(times.samples(), [&] { evaluate(engine); }), bytes);
  if (!times.wants("fresh_evaluation")) return;
  times.add("fresh_evaluation",
            times.wall(std::min(times.samples(), kFreshSamples),
                       [&] { evaluate(open_session(model, options, {.at_once = true}).engine()); }),
            bytes);
}

void describe(ordered_json& report, const BenchArguments& arguments, const ProblemModel& model,
              const SolverOptions& options, runtime::Engine& engine) {
  report["problem"] = arguments.problem.name;
  report["instances"] = model.instances();
  report["topologies"] = model.model.terms.size();
  report["unknowns"] = model.model.scalars;
  report["residuals"] = model.model.rows;
  report["backend"] = name(engine.backend());
  report["device"] = engine.device();
  report["precision"] = name(options.precision);
  report["accumulation"] = engine.abilities().plans->accumulation();
}

/// Evaluates once, which compiles and plans, and compares with the scalar evaluator.
void check_first(ordered_json& report, runtime::Engine& engine, const runtime::Model& model,
                 std::span<const double> x, std::optional<codegen::Precision> check) {
  std::vector<double> gradient(x.size());
  const auto start = std::chrono::steady_clock::now();
  engine.set_point(x);
  report["initial_cost"] = engine.cost();
  engine.gradient(gradient);
  report["first_evaluation_ms"] = 1e3 * seconds_since(start);
  if (check) {
    report["gradient_relative_error"] =
        check::relative_difference(gradient, check::reference_gradient(model, x, *check));
  }
  report["gradient_hash"] = runtime::hex(runtime::hash_bytes(std::as_bytes(std::span(gradient))));
}

void add_statistics(ordered_json& report, const runtime::EngineStats& stats, double build_s) {
  report["build_s"] = build_s;
  report["plan_s"] = stats.plan_seconds;
  report["glsl_ms"] = stats.glsl_ms;
  report["spirv_ms"] = stats.spirv_ms;
  report["pipeline_ms"] = stats.pipeline_ms;
  report["compile_wall_ms"] = stats.compile_wall_ms;
  report["kernels_on_cpu"] = stats.kernels_on_cpu;
  report["kernels_on_device"] = stats.kernels_on_device;
}

struct PoolBytes {
  double in_use = 0, reserved = 0;
  double overhead() const { return in_use == 0 ? 0 : (reserved - in_use) / in_use; }
};

PoolBytes pool_bytes() {
  PoolBytes bytes;
  for (const runtime::hybrid::Figure& figure : hybrid_executor().figures()) {
    if (figure.name != "topograd_pool_bytes") continue;
    const std::string& state = figure.labels.back().second;
    if (state == "in_use") bytes.in_use += figure.value;
    if (state == "reserved") bytes.reserved += figure.value;
  }
  return bytes;
}

/// Adds the devices' pools while the engine holds its memory, after waiting until memory that only
/// the last measurement needed is released.
void add_pools(ordered_json& report) {
  constexpr double kSettled = 0.01;
  constexpr double kSmall = 1'000'000;  // in bytes; overhead of smaller totals is ignored
  constexpr std::chrono::milliseconds kIdle{2100};  // pools keep memory for two seconds
  PoolBytes bytes = pool_bytes();
  if (bytes.in_use > kSmall && bytes.overhead() > kSettled) {
    std::this_thread::sleep_for(kIdle);
    bytes = pool_bytes();
  }
  if (bytes.in_use == 0) return;
  report["pool_bytes_in_use"] = static_cast<std::uint64_t>(bytes.in_use);
  report["pool_bytes_reserved"] = static_cast<std::uint64_t>(bytes.reserved);
  report["pool_overhead"] = bytes.overhead();
}

constexpr std::uint64_t kDefaultTopologies = 100;

struct AllArguments {
  BenchArguments bench;
  std::string json, metrics;
  std::optional<std::uint64_t> count;
  std::uint64_t seed = 1;
  bool device_only = false, claims = false, shapes = false;
  std::string claim;
  StatedWatts watts;
  std::optional<int> steps;
};

nlohmann::ordered_json run_all(const AllArguments& a) {
  const ProblemArguments& problem = a.bench.problem;
  if (problem.name == "topologies")
    return run_bench_topologies({.count = a.count.value_or(kDefaultTopologies),
                                 .seed = a.seed,
                                 .samples = a.bench.samples,
                                 .solver = a.bench.solver});
  if (problem.name == "ops") {
    return run_bench_ops({.count = a.count,
                          .backend = a.bench.solver.backend,
                          .device = a.bench.solver.device,
                          .samples = a.bench.samples,
                          .cpu = !a.device_only,
                          .claims = a.claims,
                          .claim = a.claim,
                          .watts = a.watts,
                          .shapes = a.shapes,
                          .steps = a.steps});
  }
  if (problem.name == "trace") {
    return run_bench_trace({.width = problem.width,
                            .shuffle = problem.shuffle,
                            .count = a.count,
                            .samples = a.bench.samples,
                            .threads = a.bench.solver.threads.value_or(0),
                            .peers = a.bench.peers});
  }
  return run_bench(a.bench);
}

void print(const nlohmann::ordered_json& report) {
  for (const auto& [key, value] : report.items()) {
    std::cout << key << ": " << (value.is_string() ? value.get<std::string>() : value.dump())
              << '\n';
  }
}

}  // namespace

void add_bench_options(Command app, BenchArguments& arguments) {
  app.option("--samples", &arguments.samples, "evaluations of which each time is the median")
      .range(1, 1000);
  app.option("--only", &arguments.only,
             "times to take, by name: residual, cost, jacobian, gradient, cost_gradient, values, "
             "jtjp, step100, hvp, evaluation, fresh_evaluation (all)")
      .delimiter(',');
  app.flag("!--no-peers", arguments.peers, "leaves other solvers out");
  app.flag("!--no-check", arguments.check,
           "does not compare the gradient with the scalar evaluator's, which takes long");
  app.flag("--orders", arguments.orders,
           "only times evaluations in the locality order and in the given one, in turn");
}

ordered_json run_bench(const BenchArguments& arguments) {
  const SolverOptions options = resolved(to_options(arguments.solver));
  ordered_json report;
  const MemoryMeter meter(options);
  std::optional<Interrupts::EndAtOnce> reading(std::in_place);
  const std::unique_ptr<NamedProblem> named = make_problem(arguments.problem);
  reading.reset();
  const ProblemModel model = make_model("bench", named->problem());
  const Session session = open_session(model, options, {.at_once = true});
  runtime::Engine& engine = session.engine();
  describe(report, arguments, model, options, engine);
  std::vector<double> x(model.model.scalars);
  named->problem().read_x(x);
  if (arguments.orders) {
    report["orders"] = compare_orders(model, options, x, arguments.samples);
    return report;
  }
  check_first(report, engine, model.model, x,
              arguments.check ? std::optional(options.precision) : std::nullopt);
  BenchTimes times(engine.abilities().measurements->copy_rate(),
                   runtime::Traffic(model.model, options.precision), arguments.samples,
                   arguments.only);
  measure(times, engine, model.model);
  add_pools(report);
  const ordered_json memory = meter.report(*named, model.model, engine);
  measure_evaluations(times, engine, model, options, x);
  add_statistics(report, engine.stats(), named->build_seconds);
  times.write(report);
  report["why"] = session.reason();
  report["plan"] = ordered_json::parse(runtime::to_json(engine.abilities().plans->plan()));
  report.update(memory);
  report["peers"] = arguments.peers ? run_peers(arguments, model.model) : ordered_json::array();
  return report;
}

void add_bench(Command app) {
  auto arguments = std::make_shared<AllArguments>();
  Command command = app.subcommand(
      "bench",
      "Times the evaluations of a problem, compiling of topologies, tracing, or operations");
  add_problem_options(command, arguments->bench.problem, {.on_grids = {"springs", "trace"}});
  add_data_option(command, arguments->bench.problem);
  add_backend_options(command, arguments->bench.solver);
  add_bench_options(command, arguments->bench);
  command.option("--count", &arguments->count,
                 "bench topologies: different random trees (100); bench trace: residuals, "
                 "instead of those of --width; bench ops: elements, instead of 10^3 to 10^8");
  command.flag("--device-only", arguments->device_only, "bench ops: leave out the CPU");
  command.flag("--claims", arguments->claims,
               "bench ops: what others claim, against one CPU thread and all");
  command.option("--claim", &arguments->claim,
                 "bench ops --claims: only the rows whose names contain this");
  command.option("--cpu-watts", &arguments->watts.cpu,
                 "bench ops --claims: watts of the processor, for energy as watts times time");
  command.option("--device-watts", &arguments->watts.device,
                 "bench ops --claims: the same of the device");
  command.flag("--shapes", arguments->shapes,
               "bench ops: at fixed shapes instead; --count leaves out those of more elements");
  command.option("--steps", &arguments->steps,
                 "bench ops: only train a small network for so many steps, with its memory");
  command.option("--seed", &arguments->seed, "bench topologies: seed of the trees");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.output(
      "--metrics", &arguments->metrics,
      "file for what the executor counted: Prometheus text, or JSON if it ends in .json");
  command.callback(noting_signals([arguments] {
    nlohmann::ordered_json report = run_all(*arguments);
    if (Interrupts::came()) report["interrupted"] = Interrupts::message();
    if (arguments->json != "-") print(report);
    Outputs outputs;
    outputs.attempt([&] { write_json(arguments->json, report); });
    outputs.write(arguments->metrics, [&] { return metrics_text(arguments->metrics); });
    if (report.contains("plan"))
      outputs.write(arguments->bench.solver.plan_out,
                    [&] { return report["plan"].dump(2) + "\n"; });
    outputs.finish();
    end_if_interrupted("the report has what was measured so far");
  }));
}

}  // namespace topograd::command
