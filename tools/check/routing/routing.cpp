// Self-test of the executor's decisions: tasks of known work, and a trace that it decides.
#include "routing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../ops/arrays.hpp"
#include "../../../ops/backend/device.hpp"
#include "../../../ops/run/run.hpp"
#include "../../../ops/tensors.hpp"
#include "../../../runtime/cache/content_hash.hpp"
#include "../../../runtime/hybrid/executor.hpp"
#include "../../../runtime/hybrid/task.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "paced_devices.hpp"

namespace topograd::check {

/// A backend counts as right if it takes at most this many times the time of the other.
inline constexpr double kRightWithin = 1.1;
/// Number of calls that a trace lets the executor decide for each pair of measured runs.
inline constexpr int kDecidedForMeasured = 2;
inline constexpr int kLeastDecisions = 64;
/// Least number of measured runs of each piece of work on each backend.
inline constexpr std::size_t kLeastRuns = 5;

/// Gives the numbers below `count` in random order, again and again.
class Rounds {
 public:
  Rounds(std::size_t count, std::mt19937_64& random)
      : order_(count), next_(count), random_(random) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }
  /// Requires count > 0.
  std::size_t next() {
    if (next_ == order_.size()) {
      std::ranges::shuffle(order_, random_);
      next_ = 0;
    }
    ended_ += next_ + 1 == order_.size() ? 1 : 0;
    return order_[next_++];
  }
  /// Number of rounds that have ended.
  std::size_t ended() const { return ended_; }

 private:
  std::vector<std::size_t> order_;
  std::size_t next_, ended_ = 0;
  std::mt19937_64& random_;
};

/// Calls decide() kDecidedForMeasured times, then measure(k) for one of `count` pieces of work, and
/// so on, for these seconds and until there are kLeastDecisions and each piece was measured
/// kLeastRuns times. A device answers faster the more often it is used, so only times from between
/// the decisions show what these would have cost.
template <class Decide, class Measure>
void alternate(double seconds, std::size_t count, std::mt19937_64& random, const Decide& decide,
               const Measure& measure) {
  const auto begin = std::chrono::steady_clock::now();
  Rounds rounds(count, random);
  int decisions = 0;
  const auto more = [&] {
    return rounds.ended() < kLeastRuns || decisions < kLeastDecisions ||
           seconds_since(begin) < seconds;
  };
  while (more() && !Interrupts::came()) {
    for (int k = 0; k < kDecidedForMeasured; ++k, ++decisions) decide();
    measure(rounds.next());
  }
}

/// Times of runs that were forced to each backend, µs.
struct Sides {
  std::vector<double> cpu, device;
};

/// Medians of both backends. If they differ by at most twice the standard error of their
/// difference, the faster backend is unknown: either choice is right and costs nothing.
struct Truth {
  double cpu_us = 0, device_us = 0;
  double noise = 0;  ///< standard error of log(cpu_us / device_us)

  explicit Truth(const Sides& sides)
      : cpu_us(median(sides.cpu)),
        device_us(median(sides.device)),
        noise(std::min(std::log(kMostNoise),
                       2 * std::hypot(error(sides.cpu), error(sides.device)))) {}

  double best_us() const { return std::min(cpu_us, device_us); }
  /// Extra time of a backend compared with the faster one; 0 if it is within the noise.
  double over_us(bool on_cpu) const {
    return log_ratio(on_cpu) <= noise ? 0 : (on_cpu ? cpu_us : device_us) - best_us();
  }
  bool right(bool on_cpu) const { return log_ratio(on_cpu) <= std::log(kRightWithin) + noise; }

 private:
  static constexpr double kMostNoise = 1.5;

  double log_ratio(bool on_cpu) const {
    return best_us() > 0 ? std::log((on_cpu ? cpu_us : device_us) / best_us()) : 0;
  }
  /// Standard error of the logarithm of the median, from the median absolute deviation.
  static double error(const std::vector<double>& us) {
    if (us.size() < 2) return 0;
    std::vector<double> off;
    const double middle = std::log(median(us));
    for (const double one : us) off.push_back(std::abs(std::log(one) - middle));
    return 1.2533 * 1.4826 * median(std::move(off)) / std::sqrt(static_cast<double>(us.size()));
  }
};

/// Measures pieces of programs on both backends, from operands on the host to results that the host
/// reads; trains the process's executor on some sizes, then lets it decide over a random trace of
/// all sizes. Fills in operations, operations_right_share and operations_over_oracle.
///
/// Must be called before any other use of the process's executor, with its options set in the
/// environment.
void check_operations(const RoutingOptions& options, const ops::Device& device,
                      std::mt19937_64& random, RoutingReport& report);

namespace {

/// Arrays that all tasks of the check share, so that memory does not grow with the number of sizes.
struct RoutingArrays {
  explicit RoutingArrays(std::size_t size) : in(size), out(size) {
    for (std::size_t k = 0; k < size; ++k) in[k] = static_cast<float>(k % 1000) * 1e-3f;
  }
  std::vector<float> in, out;
};

class RoutingTask final : public runtime::hybrid::Task {
 public:
  /// `rounds` rounds of two operations each.
  RoutingTask(RoutingArrays& arrays, std::uint64_t rounds, std::uint64_t size)
      : arrays_(arrays), rounds_(rounds), size_(size) {}

  runtime::hybrid::TaskShape shape() const override {
    return {.kernel = runtime::hash_text("routing check " + std::to_string(rounds_)),
            .operation = "check",
            .size = size_,
            .bytes_in = 4 * size_,
            .bytes_out = 4 * size_,
            .features = {.operations = 2.0 * static_cast<double>(rounds_), .bytes = 8},
            .where = where,
            .teaches = where == runtime::hybrid::Override::none};
  }
  void run_on_cpu(const runtime::hybrid::CpuThreads& threads,
                  runtime::hybrid::Items items) override {
    threads.for_ranges(items.count(), kGrain / rounds_ + 1,
                       [&](std::size_t begin, std::size_t end) {
                         for (std::size_t k = items.begin + begin; k < items.begin + end; ++k)
                           arrays_.out[k] = value(arrays_.in[k]);
                       });
  }
  std::optional<runtime::hybrid::DeviceProgram> program(runtime::hybrid::Items items) override {
    const auto part = [&](auto& array) {
      return std::span(array).subspan(items.begin, items.count());
    };
    runtime::hybrid::DeviceProgram program{
        .name = "routing_check", .glsl = glsl(), .items = items.count(), .itemwise = true};
    program.arrays.push_back({.read = {std::as_bytes(part(arrays_.in))}});
    program.arrays.push_back({.written = {std::as_writable_bytes(part(arrays_.out))}});
    return program;
  }

  /// Number of sampled items whose result differs by more than rounding.
  std::uint64_t wrong() const {
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < size_; k += size_ / 64 + 1) {
      const float expected = value(arrays_.in[k]);
      count += std::abs(arrays_.out[k] - expected) <= 1e-4f * std::abs(expected) ? 0 : 1;
    }
    return count;
  }

  runtime::hybrid::Override where = runtime::hybrid::Override::none;

 private:
  static constexpr std::size_t kGrain = 1 << 16;

  float value(float x) const {
    for (std::uint64_t k = 0; k < rounds_; ++k) x = x * 0.875f + 0.25f;
    return x;
  }
  std::string glsl() const {
    return R"(#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer In { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Push { uint first; uint items; };
void main() {
  uint i = first + gl_GlobalInvocationID.x;
  if (i >= items) return;
  float v = x[i];
  for (uint k = 0; k < )" +
           std::to_string(rounds_) + R"(u; ++k) v = v * 0.875 + 0.25;
  y[i] = v;
}
)";
  }

  RoutingArrays& arrays_;
  std::uint64_t rounds_, size_;
};

namespace hybrid = runtime::hybrid;

constexpr std::uint64_t kRounds[] = {1, 8, 64, 256, 1024};
constexpr double kOverBest = 0.15;

/// The device that the options select, or nullptr with the reason.
std::unique_ptr<hybrid::DeviceBackend> find_device(const RoutingOptions& options,
                                                   std::string& note) {
  note = "backend cpu: no device was asked for";
  if (options.backend == Backend::cpu) return nullptr;
  const SolverOptions wanted{.device = options.device};
  const DeviceFacts facts = probe_device(wanted);
  if (options.backend == Backend::vulkan && !facts.available)
    throw Error(facts.code, "check routing: backend vulkan: " + facts.problem);
  const bool admitted = options.backend == Backend::vulkan || names_device(wanted) ||
                        hybrid::environment_hybrid_options().admit_software;
  note = facts.available ? facts.name +
                               " is software; --backend vulkan or TOPOGRAD_HYBRID_ADMIT_SOFTWARE=1 "
                               "takes it"
                         : facts.problem;
  if (!facts.available || (facts.software() && !admitted)) return nullptr;
  note.clear();
  return make_device_backend(wanted);
}

class RoutingCheck {
 public:
  explicit RoutingCheck(const RoutingOptions& options)
      : options_(options),
        arrays_(10'000'000),
        executor_({.admit_software = true}),
        random_(options.seed) {
    auto device = find_device(options, report_.note);
    if (!device) return;
    report_.device = device->capabilities().name;
    executor_.add_device(std::move(device));
  }

  RoutingReport run() {
    find_sizes();
    if (!report_.device.empty()) warm_up();
    trace();
    time_decisions();
    if (!report_.device.empty() && !Interrupts::came()) check_arrays();
    check_schedules();
    report_.learned = executor_.scheduler().knowledge();
    return std::move(report_);
  }

 private:
  void check_arrays() {
    // The executor of operations reads these when created: this device, without stored knowledge.
    platform::set_environment("TOPOGRAD_HYBRID_ADMIT_SOFTWARE", "1");
    platform::set_environment("TOPOGRAD_HYBRID_STATE", "none");
    if (!options_.device.empty()) platform::set_environment("TOPOGRAD_DEVICE", options_.device);
    check_operations(options_, ops::Device::vulkan(report_.device), random_, report_);
  }

  /// The least time of some runs, because other processes only add time.
  void check_schedules() {
    constexpr int kRuns = 12;
    for (const PacedRow& row : kPacedRows) {
      if (Interrupts::came()) return;
      PacedPair pair(row.us_first, row.us_second);
      ScheduleTruth truth{.what = row.what, .us = INFINITY, .best_us = pair.best_us(row)};
      pair.run(row);
      for (int k = 0; k < kRuns && truth.over_best() > kOverBest; ++k)
        truth.us = std::min(truth.us, pair.run(row));
      truth.first_items = pair.first->items;
      truth.second_items = pair.second->items;
      report_.schedules.push_back(std::move(truth));
    }
  }

  /// Time of one run in µs, including all overheads.
  double timed(RoutingTask& task, hybrid::Override where) {
    task.where = where;
    const auto start = std::chrono::steady_clock::now();
    executor_.execute(task);
    const double us = 1e6 * seconds_since(start);
    report_.wrong_results += task.wrong();
    return us;
  }

  double most_us() const { return 1e6 * options_.seconds / 500; }

  /// Times of one kernel at one size on both backends.
  struct Runs {
    RoutingTask task;
    Sides sides = {};
  };

  void run_both(Runs& runs) {
    runs.sides.cpu.push_back(timed(runs.task, hybrid::Override::cpu));
    if (!report_.device.empty())
      runs.sides.device.push_back(timed(runs.task, hybrid::Override::device));
  }

  /// Finds the sizes 10, 32, 100, ... up to 10⁷ or the time limit.
  void find_sizes() {
    for (const std::uint64_t rounds : kRounds) {
      for (int half = 2; half <= 14 && (all_.empty() || !Interrupts::came()); ++half) {
        const auto size = static_cast<std::uint64_t>(std::llround(std::pow(10, half / 2.0)));
        Runs& runs = all_.emplace_back(Runs{.task = {arrays_, rounds, size}});
        report_.truths.push_back({.operations = 2 * rounds, .size = size});
        run_both(runs);  // uploads kernels and buffers
        runs.sides = {};
        run_both(runs);
        const Truth first(std::exchange(runs.sides, {}));
        if (std::max(first.cpu_us, first.device_us) > most_us()) break;
      }
    }
  }

  std::vector<Truth> take_medians() {
    std::vector<Truth> truths;
    for (std::size_t k = 0; k < all_.size(); ++k) {
      const Truth& truth = truths.emplace_back(all_[k].sides);
      report_.truths[k].cpu_us = truth.cpu_us;
      report_.truths[k].device_us = truth.device_us;
    }
    return truths;
  }

  void warm_up() {
    for (const RoutingTruth& truth : report_.truths) {
      if (Interrupts::came()) return;
      const double power = std::log10(static_cast<double>(truth.size));
      if (std::abs(power - std::round(power)) > 0.1) continue;
      RoutingTask task(arrays_, truth.operations / 2, truth.size);
      hybrid::Task* const list[] = {&task};
      executor_.warm_up(list, 4);
    }
  }

  struct Call {
    std::size_t truth = 0;
    hybrid::ExecutionStats stats;
    bool on_cpu() const { return stats.on_cpu; }
  };

  /// Lets the executor decide, if it has a device, with measurements in between.
  void trace() {
    std::vector<Call> calls;
    const bool decides = !report_.device.empty();
    const auto decide = [&] {
      if (!decides) return;
      const std::size_t k = random_() % report_.truths.size();
      RoutingTask task(arrays_, report_.truths[k].operations / 2, report_.truths[k].size);
      calls.push_back({k, executor_.execute(task)});
      report_.wrong_results += task.wrong();
    };
    alternate(decides ? options_.seconds / 2 : 0, all_.size(), random_, decide,
              [&](std::size_t k) { run_both(all_[k]); });
    judge(std::move(calls), take_medians());
  }

  void judge(std::vector<Call> calls, const std::vector<Truth>& truths) {
    // An interrupted trace has not measured all of them.
    std::erase_if(calls, [&](const Call& call) { return truths[call.truth].best_us() == 0; });
    if (calls.empty()) return;
    std::uint64_t right = 0;
    double over_us = 0, best_us = 0;
    for (const Call& call : calls) {
      RoutingTruth& row = report_.truths[call.truth];
      const Truth& truth = truths[call.truth];
      const hybrid::Decision& decision = call.stats.decision;
      ++(call.on_cpu() ? row.on_cpu : row.on_device);
      report_.explored += decision.reason == hybrid::Reason::explored ? 1 : 0;
      over_us += truth.over_us(call.on_cpu());
      best_us += truth.best_us();
      right += truth.right(call.on_cpu()) ? 1 : 0;
      if (truth.right(call.on_cpu())) continue;
      report_.wrong.push_back({.name = std::to_string(row.operations) + " operations",
                               .size = row.size,
                               .call = row.on_cpu + row.on_device - 1,
                               .reason = std::string(name(decision.reason)),
                               .on_device = !call.on_cpu(),
                               .cpu_us = truth.cpu_us,
                               .device_us = truth.device_us,
                               .expected_cpu_us = decision.on_cpu.terms.work(),
                               .expected_device_us = decision.on_device.terms.work()});
    }
    report_.tasks = calls.size();
    report_.right_share = static_cast<double>(right) / static_cast<double>(calls.size());
    report_.time_over_oracle = over_us / best_us;
  }

  /// The minimum over some rounds, because other processes only add time.
  void time_decisions() {
    std::vector<hybrid::TaskShape> shapes;
    std::vector<double> us;
    for (const RoutingTruth& truth : report_.truths) {
      shapes.push_back(RoutingTask(arrays_, truth.operations / 2, truth.size).shape());
      us.push_back(report_.device.empty() ? truth.cpu_us : std::min(truth.cpu_us, truth.device_us));
    }
    std::ranges::sort(us);
    report_.median_task_us = us[us.size() / 2];
    report_.decision_ns = 1e9;
    hybrid::Scheduler& scheduler = executor_.scheduler();
    for (int round = 0; round < 100; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (const hybrid::TaskShape& shape : shapes) scheduler.cancel(scheduler.decide(shape));
      report_.decision_ns = std::min(
          report_.decision_ns, 1e9 * seconds_since(start) / static_cast<double>(shapes.size()));
    }
  }

  const RoutingOptions options_;
  RoutingArrays arrays_;
  RoutingReport report_;
  hybrid::Executor executor_;  // measured runs teach it nothing
  std::vector<Runs> all_;      // in the order of report_.truths
  std::mt19937_64 random_;
};

}  // namespace

bool RoutingReport::broken() const {
  return right_share.value_or(1) < 0.95 || time_over_oracle.value_or(0) > 0.05 ||
         operations_right_share.value_or(1) < 0.95 || operations_over_oracle.value_or(0) > 0.05 ||
         std::ranges::any_of(
             schedules, [](const ScheduleTruth& t) { return !(t.over_best() <= kOverBest); }) ||
         wrong_results > 0 || decision_ns > std::max(1000.0, 10 * median_task_us);
}

RoutingReport check_routing(const RoutingOptions& options) {
  if (!(options.seconds > 0))
    throw Error(ErrorCode::InvalidArgument,
                "check routing: seconds must be > 0, got " + std::to_string(options.seconds));
  return RoutingCheck(options).run();
}

namespace {

using ops::Array;
using ops::Device;
using ops::Shape;
using ops::Tensor;
using runtime::hybrid::Reason;

// Runs of each piece on each backend that train the executor before it decides; the first compiles,
// the second is the first sample.
constexpr int kRuns = 5;

/// Reads its results on the host; returns a number that tells if they are right.
using Piece = std::function<double()>;

struct OperationCase {
  const char* name;
  std::vector<std::uint64_t> sizes;
  std::function<Piece(std::uint64_t size)> make;
};

std::vector<float> ramp(std::uint64_t size) {
  std::vector<float> out(size);
  for (std::uint64_t k = 0; k < size; ++k) out[k] = 1e-3f * static_cast<float>(k % 1000);
  return out;
}
/// Makes an array whose operands come from the host each time.
Array<float> array(const std::vector<float>& numbers) {
  return Array<float>(std::span<const float>(numbers));
}
Tensor matrix(const std::vector<float>& numbers, std::int64_t rows) {
  return ops::tensor(std::span<const float>(numbers),
                     {rows, static_cast<std::int64_t>(numbers.size()) / rows});
}
double last_of(const Array<float>& x) { return x.read().back(); }
double last_of(const Tensor& x) { return x.floats().back(); }

/// A training step of a small network on numbers from the host; the weights stay on their backend.
Piece training_step(std::uint64_t width) {
  const auto n = static_cast<std::int64_t>(width);
  struct State {
    std::vector<float> x, y;
    Tensor first, second;
    std::unique_ptr<ops::nn::Sgd> optimizer;
  };
  auto s = std::make_shared<State>();
  s->x = ramp(128 * width);
  s->y = ramp(128 * 10);
  s->first = (ops::randn({n, n}, 1) * 0.01).evaluate().detach();
  s->second = (ops::randn({n, 10}, 2) * 0.01).evaluate().detach();
  s->first.requires_grad();
  s->second.requires_grad();
  s->optimizer = std::make_unique<ops::nn::Sgd>(std::vector{s->first, s->second},
                                                ops::nn::SgdOptions{.rate = 1e-6});
  return [s] {
    const Tensor hidden = ops::relu(ops::matmul(matrix(s->x, 128), s->first));
    const Tensor error = ops::matmul(hidden, s->second) - matrix(s->y, 128);
    const Tensor loss = ops::mean(ops::square(error));
    s->optimizer->zero_grad();
    loss.backward();
    s->optimizer->step();
    loss.item();
    return 0.0;  // differs between steps
  };
}

std::vector<OperationCase> cases() {
  const std::vector<std::uint64_t> elements = {1000, 10'000, 60'000, 300'000, 1'000'000, 4'000'000};
  const auto of_numbers = [&](const char* name, double (*run)(const std::vector<float>&)) {
    return OperationCase{name, elements, [run](std::uint64_t size) -> Piece {
                           return [run, x = ramp(size)] { return run(x); };
                         }};
  };
  const auto of_matrices = [&](const char* name, std::vector<std::uint64_t> sizes,
                               double (*run)(const std::vector<float>&, std::int64_t)) {
    return OperationCase{name, std::move(sizes), [run](std::uint64_t size) -> Piece {
                           return [run, x = ramp(size * size),
                                   n = static_cast<std::int64_t>(size)] { return run(x, n); };
                         }};
  };
  return {
      of_numbers("map",
                 [](auto& x) {
                   return last_of(ops::map([](Value v) { return v * 3.0 + 1.0; }, array(x)));
                 }),
      of_numbers("map of sixty operations",
                 [](auto& x) {
                   return last_of(ops::map(
                       [](Value v) {
                         for (int k = 0; k < 20; ++k) v = exp(-v * v);
                         return v;
                       },
                       array(x)));
                 }),
      of_numbers("sum", [](auto& x) { return double{ops::sum(array(x)).item()}; }),
      of_numbers("scan", [](auto& x) { return last_of(ops::inclusive_scan(array(x))); }),
      of_numbers("sort", [](auto& x) { return last_of(ops::sort(array(x))); }),
      of_numbers("histogram",
                 [](auto& x) { return double(ops::histogram(array(x), {.count = 64}).read()[1]); }),
      of_numbers("three maps and a sum",
                 [](auto& x) {
                   Array<float> y = ops::map([](Value v) { return v * 0.5 - 2.0; }, array(x));
                   y = ops::map([](Value v) { return sin(v); }, y);
                   y = ops::map([](Value v) { return v * v; }, y);
                   return double{ops::sum(y).item()};
                 }),
      of_matrices("matmul", {32, 64, 128, 256, 512},
                  [](auto& x, auto n) { return last_of(ops::matmul(matrix(x, n), matrix(x, n))); }),
      of_matrices("softmax", {32, 128, 512, 1024},
                  [](auto& x, auto n) { return last_of(ops::softmax(matrix(x, n))); }),
      of_matrices("fft", {32, 128, 512, 1024},
                  [](auto& x, auto n) {
                    return last_of(ops::fft(matrix(x, n).reshape({n, n / 2, 2})));
                  }),
      of_matrices("two products and a sum", {64, 128, 256, 512},
                  [](auto& x, auto n) {
                    const Tensor a = matrix(x, n) * (1 / static_cast<double>(n));
                    return ops::sum(ops::matmul(ops::relu(ops::matmul(a, a)), a)).item();
                  }),
      {"training step", {32, 64, 128, 256, 512}, training_step},
  };
}

/// One piece at one size.
struct Measured {
  const OperationCase* one = nullptr;
  Piece on_cpu, on_device, anywhere;
  double expected = 0;
  Sides sides;
  std::vector<double> expected_cpu, expected_device;
  bool teaches = false;
};

/// Decisions for a piece's operations: the reason of the first, and the predicted time of all.
struct Seen {
  std::optional<Reason> reason = {};
  double cpu_us = 0, device_us = 0;
};

/// One call of the trace.
struct Call {
  std::size_t piece = 0;
  bool on_cpu = true;
  Seen seen;
};

double timed(const Piece& piece, double& result) {
  const auto start = std::chrono::steady_clock::now();
  result = piece();
  return 1e6 * seconds_since(start);
}

class OperationsCheck {
 public:
  OperationsCheck(const RoutingOptions& options, Device device, std::mt19937_64& random,
                  RoutingReport& report)
      : options_(options), device_(std::move(device)), random_(random), report_(report) {}

  void run() {
    ops::executor().set_observer([this](auto, auto, const auto& stats) {
      const runtime::hybrid::Decision& d = stats.decision;
      if (!seen_.reason) seen_.reason = d.reason;
      seen_.cpu_us += d.on_cpu.terms.work();
      seen_.device_us += d.on_device.terms.work();
    });
    find_sizes();
    teach();
    trace();
    report();
  }

 private:
  double most_us() const { return 1e6 * options_.seconds / 500; }

  void run_on(const Device& device, const Piece& piece, std::vector<double>& times, Measured& of) {
    const ops::OnDevice scope(device);
    double result = 0;
    times.push_back(timed(piece, result));
    judge(of, result);
  }
  void judge(const Measured& of, double result) {
    const double bound = 1e-3 * std::max(1.0, std::abs(of.expected));
    report_.wrong_results += std::abs(result - of.expected) <= bound ? 0 : 1;
  }
  void run_both(Measured& m) {
    run_on(Device::cpu(), m.on_cpu, m.sides.cpu, m);
    run_on(device_, m.on_device, m.sides.device, m);
  }

  /// Finds the sizes of each case, up to the time limit.
  void find_sizes() {
    const ops::UnrecordedRuns scope;
    for (const OperationCase& one : cases_) {
      bool teaches = true;
      for (const std::uint64_t size : one.sizes) {
        if (Interrupts::came() && !all_.empty()) return;
        Measured& m = all_.emplace_back();
        m.one = &one;
        m.on_cpu = one.make(size);
        m.on_device = one.make(size);
        m.anywhere = one.make(size);
        m.teaches = teaches;
        teaches = !teaches;
        report_.operations.push_back({.name = one.name, .size = size});
        {
          const ops::OnDevice on_cpu(Device::cpu());
          m.expected = m.on_cpu();
        }
        run_both(m);  // uploads kernels and buffers
        m.sides = {};
        run_both(m);
        const Truth first(std::exchange(m.sides, {}));
        if (std::max(first.cpu_us, first.device_us) > most_us()) break;
      }
    }
  }

  /// Trains with every other size, on both backends.
  void teach() {
    for (Measured& m : all_) {
      if (Interrupts::came()) return;
      if (!m.teaches) continue;
      for (int k = 0; k < kRuns; ++k) run_both(m);
      m.sides = {};
    }
  }

  /// Lets the executor decide, with measurements in between.
  void trace() {
    const auto decide = [&] {
      const std::size_t k = random_() % all_.size();
      seen_ = {};
      judge(all_[k], all_[k].anywhere());
      calls_.push_back({k, ops::last_stats().on_cpu, seen_});
    };
    alternate(options_.seconds / 2, all_.size(), random_, decide, [&](std::size_t k) {
      const ops::UnrecordedRuns scope;
      run_both(all_[k]);
    });
  }

  void report() {
    if (calls_.empty()) return;
    std::vector<Truth> truths;
    for (std::size_t k = 0; k < all_.size(); ++k) {
      const Truth& truth = truths.emplace_back(all_[k].sides);
      report_.operations[k].cpu_us = truth.cpu_us;
      report_.operations[k].device_us = truth.device_us;
    }
    // An interrupted trace has not measured all of them.
    std::erase_if(calls_, [&](const Call& call) { return truths[call.piece].best_us() == 0; });
    if (calls_.empty()) return;
    std::uint64_t right = 0;
    double over_us = 0, best_us = 0;
    for (const Call& call : calls_) {
      OperationTruth& row = report_.operations[call.piece];
      const Truth& truth = truths[call.piece];
      ++(call.on_cpu ? row.on_cpu : row.on_device);
      all_[call.piece].expected_cpu.push_back(call.seen.cpu_us);
      all_[call.piece].expected_device.push_back(call.seen.device_us);
      report_.operations_explored += call.seen.reason == Reason::explored ? 1 : 0;
      over_us += truth.over_us(call.on_cpu);
      best_us += truth.best_us();
      right += truth.right(call.on_cpu) ? 1 : 0;
      if (truth.right(call.on_cpu)) continue;
      report_.wrong.push_back({.name = row.name,
                               .size = row.size,
                               .call = row.on_cpu + row.on_device - 1,
                               .reason = std::string(name(*call.seen.reason)),
                               .on_device = !call.on_cpu,
                               .cpu_us = truth.cpu_us,
                               .device_us = truth.device_us,
                               .expected_cpu_us = call.seen.cpu_us,
                               .expected_device_us = call.seen.device_us});
    }
    for (std::size_t k = 0; k < all_.size(); ++k) {
      report_.operations[k].expected_cpu_us = median(all_[k].expected_cpu);
      report_.operations[k].expected_device_us = median(all_[k].expected_device);
    }
    const auto calls = static_cast<double>(calls_.size());
    report_.operations_calls = calls_.size();
    report_.operations_right_share = static_cast<double>(right) / calls;
    report_.operations_over_oracle = over_us / best_us;
  }

  const RoutingOptions& options_;
  const Device device_;
  std::mt19937_64& random_;
  RoutingReport& report_;
  const std::vector<OperationCase> cases_ = cases();
  std::vector<Measured> all_;
  std::vector<Call> calls_;
  Seen seen_;
};

}  // namespace

void check_operations(const RoutingOptions& options, const ops::Device& device,
                      std::mt19937_64& random, RoutingReport& report) {
  OperationsCheck(options, device, random, report).run();
}

}  // namespace topograd::check
