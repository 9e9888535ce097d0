// Makes calls fail during work and checks the result.
#include "fault_child.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../runtime/device/driver/validation.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/session/session.hpp"
#include "../../../solver/solve.hpp"
#include "known_answers.hpp"

namespace topograd::check {
namespace {

namespace vulkan = runtime::vulkan;

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// Releases devices until the driver has no objects, or for as long as work in flight may take.
/// Returns a description of the remaining objects.
std::string remains() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until = Clock::now() + std::chrono::seconds(20);
  std::map<std::string, std::uint64_t> live;
  for (;;) {
    vulkan::release_devices();
    live = vulkan::live_objects();
    if (live.empty() || Clock::now() > until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::string text;
  for (const auto& [kind, count] : live)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return text;
}

/// A driver that reports its own absence is not counted as a failure.
bool says_absent(const Injection& injection) {
  const std::string_view call = vulkan::fallible_calls()[injection.fault.call].name;
  const std::string result = vulkan::result_name(injection.fault.result);
  return (call == "vkCreateInstance" && result == "ErrorIncompatibleDriver") ||
         (call == "vkEnumeratePhysicalDevices" && result == "ErrorInitializationFailed");
}

struct Result {
  Outcome outcome = Outcome::wrong;
  bool leaked = false, miscounted = false;
  std::uint64_t fallbacks = 0;
  std::string text;
};

void work(const Injection& injection, const std::string& device, Result& result) {
  const bool automatic = injection.scenario.backend == Backend::automatic;
  try {
    const FaultAnswer answer = injection.scenario.work->run(injection.scenario.backend, device,
                                                            injection.scenario.precision);
    result.outcome = answer.right ? Outcome::right : Outcome::wrong;
    result.text = answer.why;
    result.fallbacks = answer.fallbacks;
    const std::uint64_t expected = automatic && answer.on_cpu ? 1 : 0;
    const bool may_be_absent = says_absent(injection) && answer.fallbacks == 0;
    result.miscounted = answer.fallbacks != expected && !may_be_absent;
    if (result.miscounted)
      result.text = std::to_string(answer.fallbacks) + " fallbacks counted: " + result.text;
  } catch (const Error& error) {
    const bool typed = !automatic && is_device_failure(error.code());
    result.outcome = typed ? Outcome::typed : Outcome::wrong;
    result.text = std::string(name(error.code())) + ": " + error.what();
  } catch (const std::exception& error) {
    result.text = std::string("an exception of another type: ") + error.what();
  }
}

Result inject(const Injection& injection, const std::string& device) {
  Result result;
  const std::uint64_t strays = vulkan::stray_destructions();
  vulkan::inject_fault(injection.fault);
  work(injection, device, result);
  const bool reached = vulkan::end_faults() > 0;
  const std::string left = remains();
  for (const vulkan::ValidationMessage& message : vulkan::take_validation_messages()) {
    result.outcome = Outcome::wrong;
    result.text = "validation: " + message.text + ": " + result.text;
  }
  result.leaked = !left.empty() || vulkan::stray_destructions() != strays;
  if (result.leaked) {
    result.text = "left: " + left + ", destroyed without having lived: " +
                  std::to_string(vulkan::stray_destructions() - strays) + ": " + result.text;
  }
  if (!reached && result.outcome == Outcome::right && !result.leaked)
    result.outcome = Outcome::not_reached;
  return result;
}

/// Works without failures, first to fill the caches, then to count calls.
void count_uses(const Scenario& scenario, std::size_t number, const std::string& device,
                Precision precision, const Tell& tell) {
  for (int k = 0; k < 2; ++k) {
    vulkan::take_uses();
    const FaultAnswer answer = scenario.work->run(scenario.backend, device, precision);
    if (!answer.right || answer.on_cpu || answer.fallbacks != 0)
      throw Error(ErrorCode::Internal, scenario.name() + " without failures: " + answer.why);
  }
  std::string line = std::string(kUses) + " " + std::to_string(number);
  for (const std::uint64_t uses : vulkan::take_uses()) line += " " + std::to_string(uses);
  tell(line);
}

}  // namespace

std::string Injection::name() const {
  const vulkan::FallibleCall& call = vulkan::fallible_calls()[fault.call];
  return scenario.name() + ", " + std::string(call.name) + " #" + std::to_string(fault.use) +
         (fault.persistent ? " and later: " : ": ") + vulkan::result_name(fault.result);
}

void prepare_fault_child(const std::string& cache) {
  platform::set_environment("TOPOGRAD_CACHE_DIR", cache);
  platform::set_environment("TOPOGRAD_HYBRID_STATE", "none");
  platform::set_environment("TOPOGRAD_HYBRID_ADMIT_SOFTWARE", "1");
  vulkan::watch_driver();
}

void run_injections(std::span<const Injection> injections, std::size_t first,
                    const std::string& device, const Tell& tell) {
  for (std::size_t k = 0; k < injections.size(); ++k) {
    const std::string number = std::to_string(first + k);
    tell(std::string(kBegin) + " " + number);
    const Result result = inject(injections[k], device);
    tell(std::string(kEnd) + " " + number + " " + std::to_string(static_cast<int>(result.outcome)) +
         " " + std::to_string(result.leaked) + " " + std::to_string(result.miscounted) + " " +
         std::to_string(result.fallbacks) + " " + one_line(result.text));
    if (result.leaked) return;
  }
}

void explore_uses(std::span<const Scenario> scenarios, const std::string& device,
                  const Tell& tell) {
  try {
    const DeviceFacts facts = probe_device({.device = device});
    if (!facts.usable) throw Error(facts.code, facts.problem);
    const Precision precision = facts.float64 ? Precision::f64 : Precision::f32;
    tell(std::string(kDevice) + " " + std::string(name(precision)) + " " + facts.name);
    for (std::size_t k = 0; k < scenarios.size(); ++k)
      count_uses(scenarios[k], k, device, precision, tell);
  } catch (const Error& error) {
    tell(std::string(kError) + " " + std::to_string(static_cast<int>(error.code())) + " " +
         one_line(error.what()));
  }
}

void lose_device(const std::string& device, Precision precision, bool persistent,
                 const Tell& tell) {
  const auto calls = vulkan::fallible_calls();
  const auto submit = static_cast<std::size_t>(
      std::ranges::find(calls, "vkQueueSubmit", &vulkan::FallibleCall::name) - calls.begin());
  vulkan::take_uses();
  long_solve(Backend::automatic, device, precision);
  const std::uint64_t submissions = vulkan::take_uses()[submit];
  constexpr std::int32_t kDeviceLost = -4;  // VK_ERROR_DEVICE_LOST
  vulkan::inject_fault({submit, submissions / 2, kDeviceLost, persistent});
  const FaultAnswer answer = long_solve(Backend::automatic, device, precision);
  vulkan::end_faults();
  const bool right = answer.right && answer.on_cpu && answer.fallbacks == 1;
  std::ostringstream line;
  line << kLost << " " << answer.steps << " " << answer.steps_on_device << " "
       << answer.repeated_steps << " " << right << " " << one_line(answer.why);
  tell(line.str());
  if (const std::string left = remains(); !left.empty())
    throw Error(ErrorCode::Internal, "a solve whose device was lost left " + left);
}

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
