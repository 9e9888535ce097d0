// A task and solves with known answers.
#include "fault_work.hpp"

#include "../../../runtime/device/device.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/solve.hpp"
#include "known_answers.hpp"

#include <algorithm>
#include <utility>

namespace topograd::check {
namespace {

namespace hybrid = runtime::hybrid;

constexpr std::size_t kLines = 1000;

FaultAnswer run_task(Backend backend, const std::string& device, Precision) {
  FaultAnswer answer;
  {
    hybrid::Executor executor(hybrid::HybridOptions{.admit_software = true});
    SolverOptions options{.device = device};
    options.restrictions.mask = "mapped_memory";  // as on cards without it: through the rings
    add_devices(executor, options);
    const bool forced = backend == Backend::vulkan;
    Lines task(kLines, forced ? hybrid::Override::device : hybrid::Override::none);
    const hybrid::ExecutionStats stats = executor.execute(task);
    answer.right = task.right();
    answer.on_cpu = stats.on_cpu;
    answer.why = stats.fallback.empty() ? "ran on " + stats.device : stats.fallback;
    answer.fallbacks = fallbacks_of(executor);
  }
  runtime::vulkan::release_devices();
  return answer;
}

constexpr std::size_t kValleys = 6;

/// A way to solve, and how near it comes to the minimum.
struct Way {
  LinearSolver linear = LinearSolver::pcg;
  FactorPlace factor = FactorPlace::automatic;
  Precision precision = Precision::f64;
  NormalMatrix normal_matrix = NormalMatrix::automatic;
  Method method = Method::levenberg_marquardt;
  double within = 0;  ///< 0: right_within()
};

FaultAnswer solve_valleys(Valleys valleys, SolverOptions options, const Way& way = {}) {
  options.linear_solver = way.linear;
  options.factor = way.factor;
  options.normal_matrix = way.normal_matrix;
  options.method = way.method;
  if (options.precision == Precision::f64) options.precision = way.precision;
  options.fallback_threshold = 0;
  options.deterministic = true;  // uses the device from the first evaluation
  solve_valleys_to_the_end(options);
  const std::uint64_t before = fallbacks_of(hybrid_executor());
  const Summary summary = solve(valleys.problem(), options);
  FaultAnswer answer;
  answer.fallbacks = fallbacks_of(hybrid_executor()) - before;
  answer.right = valleys.off() < (way.within > 0 ? way.within : right_within(options.precision));
  answer.on_cpu = !summary.on_device;
  answer.why = summary.why;
  if (!answer.right) {
    answer.why = "off by " + std::to_string(valleys.off()) + " after " +
                 std::to_string(summary.num_iterations()) + " steps: " + summary.message + " (" +
                 summary.why + ")";
  }
  answer.steps = static_cast<std::uint64_t>(summary.num_iterations());
  answer.repeated_steps = static_cast<std::uint64_t>(summary.num_repeated_steps);
  answer.steps_on_device = static_cast<std::uint64_t>(std::ranges::count_if(
      summary.iterations,
      [](const IterationSummary& step) { return step.iteration > 0 && step.on_device; }));
  return answer;
}

template <Way kWay>
FaultAnswer run_solve(Backend backend, const std::string& device, Precision precision) {
  FaultAnswer answer =
      solve_valleys(Valleys(kValleys, 0.9, 0.7),
                    {.backend = backend, .precision = precision, .device = device}, kWay);
  runtime::vulkan::release_devices();
  return answer;
}

constexpr double kLongRadius = 100;

constexpr double kByGradients = 1e-4;

constexpr NamedWork kWorks[] = {
    {"task", run_task},
    {"solve", run_solve<Way{}>},
    {"pcg in mixed precision", run_solve<Way{.precision = Precision::mixed}>, true},
    {"pcg with a stored matrix", run_solve<Way{.normal_matrix = NormalMatrix::assembled}>, true},
    {"cholesky", run_solve<Way{.linear = LinearSolver::cholesky, .factor = FactorPlace::host}>,
     true},
    {"cholesky on the device",
     run_solve<Way{.linear = LinearSolver::cholesky, .factor = FactorPlace::device}>, true},
    {"cholesky on the device in mixed precision",
     run_solve<Way{.linear = LinearSolver::cholesky,
                   .factor = FactorPlace::device,
                   .precision = Precision::mixed}>,
     true},
    {"schur", run_solve<Way{.linear = LinearSolver::schur}>, true},
    {"schur in mixed precision",
     run_solve<Way{.linear = LinearSolver::schur, .precision = Precision::mixed}>, true},
    {"dense", run_solve<Way{.linear = LinearSolver::dense}>, true},
    {"dogleg", run_solve<Way{.linear = LinearSolver::automatic, .method = Method::dogleg}>, true},
    {"newton", run_solve<Way{.linear = LinearSolver::automatic, .method = Method::newton}>, true},
    {"lbfgs",
     run_solve<Way{
         .linear = LinearSolver::automatic, .method = Method::lbfgs, .within = kByGradients}>,
     true}};

}  // namespace

std::span<const NamedWork> fault_works() { return kWorks; }

FaultAnswer long_solve(Backend backend, const std::string& device, Precision precision) {
  SolverOptions options{.backend = backend, .precision = precision, .device = device};
  options.max_iterations = 1000;
  options.max_trust_region_radius = kLongRadius;  // no Gauss-Newton steps, of which a dozen suffice
  options.initial_trust_region_radius = kLongRadius;
  options.rescale_steps = false;
  FaultAnswer answer = solve_valleys(Valleys(kValleys, -1.2, 1), std::move(options));
  runtime::vulkan::release_devices();
  return answer;
}

}  // namespace topograd::check
