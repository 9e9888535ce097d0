// Compile times of many topologies.
#include "bench_topologies.hpp"

#include "measure/measure.hpp"

#include "../../../api/expression/expression_values.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../ir/checking/random_program.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../ir/topology/topology.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/session/session.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

namespace topograd::command {
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
