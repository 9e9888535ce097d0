// A task and solves with known answers.
#include "fault_work.hpp"

#include "../../../runtime/device/device.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/solve.hpp"
#include "known_answers.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
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
constexpr double kLearningRate = 1e-4;  // sgd diverges with much more

/// A way to solve, and how near it comes to the minimum.
struct Way {
  LinearSolver linear = LinearSolver::pcg;
  FactorPlace factor = FactorPlace::automatic;
  Precision precision = Precision::f64;
  NormalMatrix normal_matrix = NormalMatrix::automatic;
  Method method = Method::levenberg_marquardt;
  double within = 0;  ///< 0: right_within()
  int steps = 0;      ///< 0: to the end; else so many, and the CPU's are the right answer
  Preconditioner preconditioner = Preconditioner::automatic;
};

/// How far the CPU is from the point of the valleys, which started like `other`.
double off_of_cpu(const Valleys& valleys, Valleys other, SolverOptions options) {
  options.backend = Backend::cpu;
  options.device.clear();
  solve(other.problem(), options);
  return valleys.distance(other);
}

FaultAnswer solve_valleys(const std::function<Valleys()>& make, SolverOptions options,
                          const Way& way = {}) {
  Valleys valleys = make();
  options.linear_solver = way.linear;
  options.factor = way.factor;
  options.normal_matrix = way.normal_matrix;
  options.method = way.method;
  options.preconditioner = way.preconditioner;
  if (way.steps > 0) {
    options.max_iterations = way.steps;
    options.first_order.learning_rate = kLearningRate;
  }
  if (options.precision == Precision::f64) options.precision = way.precision;
  options.fallback_threshold = 0;
  options.deterministic = true;  // uses the device from the first evaluation
  solve_valleys_to_the_end(options);
  const std::uint64_t before = fallbacks_of(hybrid_executor());
  const Summary summary = solve(valleys.problem(), options);
  FaultAnswer answer;
  answer.fallbacks = fallbacks_of(hybrid_executor()) - before;
  const double off = way.steps > 0 ? off_of_cpu(valleys, make(), options) : valleys.off();
  answer.right = off < (way.within > 0 ? way.within : right_within(options.precision));
  answer.on_cpu = !summary.on_device;
  answer.why = summary.why;
  if (!answer.right) {
    answer.why = "off by " + std::to_string(off) + " after " +
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
      solve_valleys([] { return Valleys(kValleys, 0.9, 0.7, takes_constraints(kWay.method)); },
                    {.backend = backend, .precision = precision, .device = device}, kWay);
  runtime::vulkan::release_devices();
  return answer;
}

constexpr double kLongRadius = 100;

constexpr double kByGradients = 1e-4;
constexpr int kLearningSteps = 20;

/// A solve while the device has no memory.
struct NamedWay {
  const char* name;
  Way way;
};
constexpr Way by_method(Method method, double within = 0, int steps = 0) {
  return {.linear = LinearSolver::automatic, .method = method, .within = within, .steps = steps};
}
constexpr NamedWay kWays[] = {
    {"pcg in mixed precision", {.precision = Precision::mixed}},
    {"pcg with a stored matrix", {.normal_matrix = NormalMatrix::assembled}},
    {"pcg with two levels", {.preconditioner = Preconditioner::two_level}},
    {"cholesky", {.linear = LinearSolver::cholesky, .factor = FactorPlace::host}},
    {"cholesky on the device", {.linear = LinearSolver::cholesky, .factor = FactorPlace::device}},
    {"cholesky on the device in mixed precision",
     {.linear = LinearSolver::cholesky,
      .factor = FactorPlace::device,
      .precision = Precision::mixed}},
    {"schur", {.linear = LinearSolver::schur}},
    {"schur in mixed precision", {.linear = LinearSolver::schur, .precision = Precision::mixed}},
    {"dense", {.linear = LinearSolver::dense}},
    {"gauss_newton", by_method(Method::gauss_newton)},
    {"dogleg", by_method(Method::dogleg)},
    {"newton", by_method(Method::newton)},
    {"newton by pcg", {.linear = LinearSolver::pcg, .method = Method::newton}},
    {"lbfgs", by_method(Method::lbfgs, kByGradients)},
    {"adam", by_method(Method::adam, 0, kLearningSteps)},
    {"adamw", by_method(Method::adamw, 0, kLearningSteps)},
    {"sgd", by_method(Method::sgd, 0, kLearningSteps)},
    {"augmented_lagrangian", by_method(Method::augmented_lagrangian, kByGradients)},
    {"barrier", by_method(Method::barrier, kByGradients)}};

/// Every value of an option but `automatic` is that of some way.
template <class Rows, class Value>
constexpr bool covered(const Rows& rows, Value Way::*member) {
  for (const auto& row : rows) {
    bool found = row.name == "automatic";
    for (const NamedWay& one : kWays) found = found || one.way.*member == row.value;
    if (!found) return false;
  }
  return true;
}
static_assert(covered(kMethods, &Way::method), "a method is solved by in no work");
static_assert(covered(kLinearSolvers, &Way::linear), "a linear solver solves no work");

template <std::size_t kIndex>
FaultAnswer run_way(Backend backend, const std::string& device, Precision precision) {
  return run_solve<kWays[kIndex].way>(backend, device, precision);
}

template <std::size_t... kIndex>
constexpr std::array<NamedWork, 2 + sizeof...(kIndex)> all_works(std::index_sequence<kIndex...>) {
  return {NamedWork{"task", run_task}, NamedWork{"solve", run_solve<Way{}>},
          NamedWork{kWays[kIndex].name, run_way<kIndex>, true}...};
}
constexpr auto kWorks = all_works(std::make_index_sequence<std::size(kWays)>());

}  // namespace

std::span<const NamedWork> fault_works() { return kWorks; }

FaultAnswer long_solve(Backend backend, const std::string& device, Precision precision) {
  SolverOptions options{.backend = backend, .precision = precision, .device = device};
  options.max_iterations = 1000;
  options.max_trust_region_radius = kLongRadius;  // no Gauss-Newton steps, of which a dozen suffice
  options.initial_trust_region_radius = kLongRadius;
  options.rescale_steps = false;
  FaultAnswer answer = solve_valleys([] { return Valleys(kValleys, -1.2, 1); }, std::move(options));
  runtime::vulkan::release_devices();
  return answer;
}

}  // namespace topograd::check
