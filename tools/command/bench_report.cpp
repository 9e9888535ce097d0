// Measuring one problem on one backend.
#include "command/bench_report.hpp"

#include <topograd/api/check/gradients.hpp>
#include <topograd/runtime/content_hash.hpp>
#include <topograd/solver/model.hpp>
#include <topograd/solver/session.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using runtime::KernelKind;

constexpr int kWarmUps = 3;
constexpr int kSamples = 20;
constexpr int kStepIterations = 100;
constexpr double kStepDamping = 1e-3;

void add_time(ordered_json& report, const std::string& name, const runtime::Timing& timing) {
  report[name + "_us"] = timing.device_us;
  report[name + "_wall_us"] = timing.wall_us;
}

/// Residuals have Jacobians and least-squares steps; energies have products with the Hessian.
void measure(ordered_json& report, runtime::Engine& engine, const runtime::Model& model) {
  const auto time = [&](KernelKind kind) {
    add_time(report, std::string(name(kind)), engine.time(kind, kWarmUps, kSamples));
  };
  const bool rows = model.rows > 0;
  if (rows) time(KernelKind::residual);
  time(KernelKind::cost);
  if (rows) time(KernelKind::jacobian);
  time(KernelKind::gradient);
  if (rows) {
    time(KernelKind::jtjp);
    add_time(report, "step100", engine.time_step(kStepIterations, kStepDamping, kSamples));
  }
  const auto is_energy = [](const runtime::Term& term) { return term.energy; };
  if (std::any_of(model.terms.begin(), model.terms.end(), is_energy)) time(KernelKind::hvp);
}

}  // namespace

ordered_json run_bench(const BenchArguments& arguments) {
  const SolverOptions options = resolved(to_options(arguments.solver));
  const std::unique_ptr<NamedProblem> named = make_problem(arguments.problem);
  const ProblemModel model = make_model("bench", named->problem());
  std::vector<double> x(model.model.scalars);
  named->problem().read_x(x);

  const Session session = open_session(model, options);
  runtime::Engine& engine = *session.engine;
  engine.set_point(x);
  std::vector<double> gradient(x.size());
  const auto first = std::chrono::steady_clock::now();
  const double cost = engine.cost();
  engine.gradient(gradient);
  const std::chrono::duration<double, std::milli> first_ms =
      std::chrono::steady_clock::now() - first;

  ordered_json report;
  report["problem"] = arguments.problem.name;
  report["instances"] = model.instances();
  report["topologies"] = model.model.terms.size();
  report["unknowns"] = model.model.scalars;
  report["residuals"] = model.model.rows;
  report["backend"] = engine.backend();
  report["device"] = engine.device();
  report["precision"] = name(options.precision);
  report["accumulation"] = engine.accumulation();
  report["initial_cost"] = cost;
  report["gradient_relative_error"] = check::relative_difference(
      gradient, check::reference_gradient(model.model, x, options.precision));
  report["gradient_hash"] = runtime::hex(runtime::hash_bytes(std::as_bytes(std::span(gradient))));
  measure(report, engine, model.model);
  const runtime::EngineStats stats = engine.stats();
  report["build_s"] = named->build_seconds;
  report["plan_s"] = stats.plan_seconds;
  report["glsl_ms"] = stats.glsl_ms;
  report["spirv_ms"] = stats.spirv_ms;
  report["pipeline_ms"] = stats.pipeline_ms;
  report["first_evaluation_ms"] = first_ms.count();
  report["kernels_on_cpu"] = stats.kernels_on_cpu;
  report["kernels_on_device"] = stats.kernels_on_device;
  report["why"] = session.why;
  return report;
}

}  // namespace topograd::command
