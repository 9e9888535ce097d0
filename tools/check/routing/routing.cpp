// Self-test of the executor's decisions: tasks of known work, and a trace that it decides.
#include "routing.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../ir/median.hpp"
#include "../../../runtime/cache/content_hash.hpp"
#include "../../../runtime/hybrid/executor.hpp"
#include "../../../runtime/hybrid/task.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "paced_devices.hpp"
#include "routing_parts.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace topograd::check {
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
  if (options.backend == Backend::vulkan && !facts.usable)
    throw Error(facts.code, "check routing: backend vulkan: " + facts.problem);
  const bool admitted = options.backend == Backend::vulkan || names_device(wanted) ||
                        hybrid::environment_hybrid_options().admit_software;
  note = facts.usable ? facts.name +
                            " is software; --backend vulkan or TOPOGRAD_HYBRID_ADMIT_SOFTWARE=1 "
                            "takes it"
                      : facts.problem;
  if (!facts.usable || (facts.software && !admitted)) return nullptr;
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

}  // namespace topograd::check
