// Measures one problem on one backend.
#include "bench_report.hpp"

#include "../arguments/output.hpp"
#include "bench_orders.hpp"
#include "bench_peers.hpp"
#include "measure/bench_memory.hpp"
#include "measure/bench_times.hpp"

#include "../../../ir/machine/stopwatch.hpp"
#include "../../../runtime/cache/content_hash.hpp"
#include "../../../runtime/plan/record/plan_json.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/session/session.hpp"
#include "../../check/programs/gradients.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using runtime::Pass;

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

}  // namespace topograd::command
