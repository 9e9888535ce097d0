// Plans injections, runs them in child processes, and counts what drivers' objects are left.
#include "faults.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../runtime/device/driver/faults.hpp"
#include "../../../runtime/device/driver/validation.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/session/session.hpp"
#include "../../../solver/solve.hpp"
#include "known_answers.hpp"
#include "soak.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

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

constexpr double kSilentSeconds = 120;     // of a child, whose waits are bounded
constexpr std::size_t kInBatch = 200;      // injections per process
constexpr std::size_t kInShortBatch = 10;  // if time is short
constexpr std::size_t kShown = 40;

/// The check in the parent process, which never opens a device.
class FaultsCheck {
 public:
  explicit FaultsCheck(const FaultOptions& options)
      : options_(options), cache_(folder_.path() / "cache") {
    for (const Backend backend : {Backend::automatic, Backend::vulkan}) {
      if (options.backend && *options.backend != backend) continue;
      for (const NamedWork& work : fault_works()) scenarios_.push_back({&work, backend});
    }
  }

  FaultReport run() {
    uses_.resize(scenarios_.size());
    const auto end =
        child([&](const Tell& tell) { explore_uses(scenarios_, options_.device, tell); });
    if (error_) throw *error_;
    if (!end.well()) fail(report_.crashed, "without failures", describe(end));
    plan();
    const auto begin = std::chrono::steady_clock::now();
    const auto late = [&] {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      return Interrupts::came() || (options_.seconds > 0 && spent.count() > options_.seconds);
    };
    for (std::size_t next = 0; next < plan_.size() && !late();) next = batch(next);
    const bool automatic = !options_.backend || *options_.backend == Backend::automatic;
    for (const bool persistent : {false, true}) {
      if (!automatic || Interrupts::came()) break;
      const auto lost = child([&](const Tell& tell) {
        lose_device(options_.device, report_.precision, persistent, tell);
      });
      if (!lost.well()) fail(report_.crashed, "a solve whose device is lost", describe(lost));
    }
    return std::move(report_);
  }

 private:
  platform::ChildEnd child(const std::function<void(const Tell&)>& work) {
    return platform::run_child(
        [&](const Tell& tell) {
          prepare_fault_child(cache_.string());
          work(tell);
        },
        [&](const std::string& line) { hear(line); }, kSilentSeconds);
  }

  static std::string describe(const platform::ChildEnd& end) {
    if (!end.started) return "no process";
    if (end.silent) return "hung";
    if (end.signal != 0) return "killed by signal " + std::to_string(end.signal);
    return "ended with status " + std::to_string(end.status);
  }

  void fail(std::uint64_t& count, const std::string& what, const std::string& text) {
    ++count;
    if (report_.failures.size() < kShown) report_.failures.push_back(what + ": " + text);
  }

  void plan() {
    const auto calls = vulkan::fallible_calls();
    for (std::size_t s = 0; s < scenarios_.size(); ++s) {
      scenarios_[s].precision = report_.precision;
      for (std::size_t call = 0; call < uses_[s].size(); ++call) {
        if (scenarios_[s].work->only_memory) {
          if (calls[call].name == "vkAllocateMemory")
            plan_memory(scenarios_[s], call, uses_[s][call]);
          continue;
        }
        for (const std::uint64_t use : chosen(uses_[s][call])) {
          for (const std::int32_t result : calls[call].results) {
            for (const bool persistent : {false, true})
              plan_.push_back({scenarios_[s], {call, use, result, persistent}});
          }
        }
      }
    }
    report_.planned = plan_.size();
    if (options_.seconds > 0) std::ranges::shuffle(plan_, std::mt19937_64(1));
  }

  /// The device's memory ends at each allocation.
  void plan_memory(const Scenario& scenario, std::size_t call, std::uint64_t uses) {
    constexpr std::int32_t kOutOfDeviceMemory = -2;  // VK_ERROR_OUT_OF_DEVICE_MEMORY
    for (std::uint64_t use = 0; use < uses; ++use)
      plan_.push_back({scenario, {call, use, kOutOfDeviceMemory, true}});
  }

  std::set<std::uint64_t> chosen(std::uint64_t uses) const {
    std::set<std::uint64_t> out;
    if (options_.full) {
      for (std::uint64_t use = 0; use < uses; ++use) out.insert(use);
    } else if (uses > 0) {
      out = {0, uses / 2, uses - 1};
    }
    return out;
  }

  /// Runs injections from `first` on; returns the next one. A process that crashes has run the
  /// injection that it had begun.
  std::size_t batch(std::size_t first) {
    const std::size_t most = options_.seconds > 0 ? kInShortBatch : kInBatch;
    const std::size_t size = std::min(most, plan_.size() - first);
    const auto part = std::span<const Injection>(plan_).subspan(first, size);
    running_.reset();
    next_ = first;
    const auto end =
        child([&](const Tell& tell) { run_injections(part, first, options_.device, tell); });
    if (!end.well()) {
      const std::size_t at = running_.value_or(next_ > first ? next_ - 1 : first);
      const std::string what = running_ ? "" : "at the end of a process, after ";
      fail(report_.crashed, what + plan_[at].name(), describe(end));
      if (running_) {
        ++report_.injections;
        next_ = *running_ + 1;
      } else if (next_ == first) {
        next_ = first + 1;  // the process did not begin the injection
      }
    }
    return next_;
  }

  void hear(const std::string& line) {
    std::istringstream in(line);
    std::string head;
    in >> head;
    if (head == kBegin) {
      std::size_t number = 0;
      in >> number;
      running_ = number;
    } else if (head == kEnd) {
      hear_end(in);
    } else if (head == kUses) {
      std::size_t scenario = 0;
      in >> scenario;
      for (std::uint64_t uses = 0; in >> uses;) uses_.at(scenario).push_back(uses);
    } else if (head == kDevice) {
      std::string precision;
      std::getline(in >> precision >> std::ws, report_.device);
      report_.precision = parse_precision(precision);
    } else if (head == kError) {
      int code = 0;
      std::string text;
      std::getline(in >> code >> std::ws, text);
      error_ = Error(static_cast<ErrorCode>(code), "check faults: " + text);
    } else if (head == kLost) {
      hear_lost(in);
    }
  }

  void hear_end(std::istringstream& in) {
    std::size_t number = 0;
    int outcome = 0;
    bool leaked = false, miscounted = false;
    std::uint64_t fallbacks = 0;
    std::string text;
    std::getline(in >> number >> outcome >> leaked >> miscounted >> fallbacks >> std::ws, text);
    running_.reset();
    next_ = number + 1;
    const Injection& injection = plan_.at(number);
    if (static_cast<Outcome>(outcome) == Outcome::not_reached) {
      ++report_.not_reached;
      return;
    }
    ++report_.injections;
    ++report_.calls[std::string(vulkan::fallible_calls()[injection.fault.call].name)];
    report_.fallbacks += fallbacks;
    switch (static_cast<Outcome>(outcome)) {
      case Outcome::right: ++report_.right_answers; break;
      case Outcome::typed: ++report_.typed_errors; break;
      case Outcome::wrong:
      case Outcome::not_reached: fail(report_.wrong, injection.name(), text);
    }
    if (leaked) fail(report_.leaked, injection.name(), text);
    if (miscounted) fail(report_.miscounted, injection.name(), text);
  }

  void hear_lost(std::istringstream& in) {
    LostSolve solve;
    std::string text;
    std::getline(in >> solve.steps >> solve.steps_on_device >> solve.repeated_steps >>
                     solve.right >> std::ws,
                 text);
    report_.lost.push_back(solve);
    if (!solve.right && report_.failures.size() < kShown)
      report_.failures.push_back("a solve whose device is lost: " + text);
  }

  FaultOptions options_;
  Folder folder_{"faults"};
  std::filesystem::path cache_;
  std::vector<Scenario> scenarios_;
  std::vector<std::vector<std::uint64_t>> uses_;  // by scenario and call
  std::vector<Injection> plan_;
  std::optional<std::size_t> running_;  // begun but not ended
  std::size_t next_ = 0;
  std::optional<Error> error_;
  FaultReport report_;
};

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
    if (!facts.available) throw Error(facts.code, facts.problem);
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

bool FaultReport::broken() const {
  return (injections == 0 && note.empty()) || wrong + crashed + leaked + miscounted > 0 ||
         std::ranges::any_of(lost, [](const LostSolve& solve) { return !solve.right; });
}

FaultReport check_faults(const FaultOptions& options) {
  options.validate();
  if (options.backend == Backend::cpu) return {.note = kNoDriver};
  // A forked process cannot use the threads and locks of drivers.
  if (vulkan::has_opened_driver())
    throw Error(ErrorCode::Unsupported,
                "check faults: expected a process that has not used Vulkan, which can be copied");
  return FaultsCheck(options).run();
}

void watch_driver_objects() { runtime::vulkan::watch_driver(); }

std::uint64_t driver_objects() {
  std::uint64_t sum = 0;
  for (const auto& [kind, count] : runtime::vulkan::live_objects()) sum += count;
  return sum;
}

std::uint64_t driver_bytes() { return runtime::vulkan::live_memory(); }

void let_go_of_devices() { runtime::vulkan::release_devices(); }

}  // namespace topograd::check
