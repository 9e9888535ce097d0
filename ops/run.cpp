// Decides where an operation runs, runs it there, and tells the executor how long it took.
#include <topograd/ops/run.hpp>

#include <topograd/ir/error.hpp>
#include <topograd/ir/median.hpp>
#include <topograd/ops/device_list.hpp>
#include <topograd/ops/lessons.hpp>
#include <topograd/ops/scope.hpp>
#include <topograd/runtime/hybrid/executor_arena.hpp>
#include <topograd/runtime/hybrid/process_options.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops {
namespace {

namespace hybrid = runtime::hybrid;
using hybrid::Decision;
using hybrid::TaskShape;

// Runs of one kernel near one size on the device that it was placed on that are timed, and how many
// of those after them go untimed for one that is.
constexpr std::uint64_t kTimedRuns = 8, kUntimedRuns = 64;
// Smaller operations are not asked about: they are what a call costs.
constexpr std::uint64_t kLeastToAsk = 256;

/// A listed device for the executor, which decides about it and never runs anything on it.
class DecidedDevice final : public hybrid::DeviceBackend {
 public:
  explicit DecidedDevice(const ListedDevice& listed) {
    capabilities_ = {.name = listed.facts.name,
                     .kind = listed.facts.kind,
                     .memory_bytes = listed.facts.memory_bytes,
                     .available = listed.problem.empty(),
                     .problem = listed.problem};
    // Software that is asked for by name takes its share.
    if (listed.asked_for) capabilities_.kind = "named";
  }
  hybrid::Capabilities capabilities() const override { return capabilities_; }
  hybrid::RunReport run(const hybrid::DeviceProgram& program) override {
    throw Error(ErrorCode::Unsupported, program.name + ": arrays run on their own backend");
  }
  void prepare(const hybrid::DeviceProgram&) override {}
  void reopen() override {}

 private:
  hybrid::Capabilities capabilities_;
};

/// What the process was asked for; reading it lists no devices.
const hybrid::HybridOptions& asked() {
  static const hybrid::HybridOptions options = hybrid::process_hybrid_options();
  return options;
}

hybrid::HybridOptions options_with_guesses() {
  hybrid::HybridOptions options = asked();
  for (const OpRow& row : kOpTable)
    options.min_batch_of.try_emplace(std::string(row.name), row.minimum);
  return options;
}

/// The executor and, by target, the devices that it decides about.
struct Routing {
  hybrid::Executor executor{options_with_guesses()};
  std::vector<const ListedDevice*> devices = {nullptr};

  Routing() {
    for (const ListedDevice& listed : listed_devices()) {
      executor.add_device(std::make_unique<DecidedDevice>(listed));
      devices.push_back(&listed);
    }
  }
};

Routing& routing() {
  // Ends with the process, so that what was learned is saved.
  static Routing instance;
  return instance;
}

thread_local ExecutionStats last;

std::uint64_t sum_bytes(std::span<const std::shared_ptr<Storage>> storages) {
  std::uint64_t sum = 0;
  for (const auto& s : storages) sum += s->bytes();
  return sum;
}

/// Bytes of the inputs that need not be uploaded.
std::uint64_t resident_bytes(const OpCall& call, const Backend& backend) {
  std::uint64_t sum = 0;
  for (const auto& s : call.inputs) {
    if (s->resident_on(backend)) sum += s->bytes();
  }
  return sum;
}

/// The device that an input was placed on. Throws where two disagree.
std::optional<Device> placement(const OpCall& call) {
  std::optional<Device> found;
  for (const auto& s : call.inputs) {
    const std::optional<Device> placed = s->placed();
    if (!placed) continue;
    if (found && !(*found == *placed)) {
      throw Error(ErrorCode::InvalidArgument,
                  std::string(name(call.op)) + ": expected inputs on one device, got \"" +
                      found->name() + "\" and \"" + placed->name() +
                      "\"; name one in the options, or move them with to()");
    }
    found = placed;
  }
  return found;
}

/// What a device would lack, if anything.
std::string refusal(const OpCall& call, const DeviceFacts& device) {
  if (!call.on_device)
    return call.device_refusal.empty() ? "has no implementation there"
                                       : std::string(call.device_refusal);
  if (call.needs_float64 && !device.float64) return "expects a device with float64";
  return {};
}

/// One call: its shape for the executor, and how it went.
class Runner {
 public:
  Runner(const OpCall& call, const OpOptions& options) : call_(call), options_(options) {
    shape_.kernel = call.kernel;
    shape_.operation = name(call.op);
    shape_.size = call.size;
    shape_.bytes_in = sum_bytes(call.inputs);
    shape_.bytes_out = 0;  // stays there until somebody reads it
    shape_.bytes_held = shape_.bytes_in + sum_bytes(call.outputs);
    shape_.features = call.work.per_item(call.size);
  }

  ExecutionStats run() {
    std::optional<Device> device = options_.device ? options_.device : scope_device();
    if (!device) {
      device = placement(call_);
      placed_ = device.has_value();
    }
    if (device) {
      return run_where_asked(*device);
    }
    return run_where_decided();
  }

 private:
  ExecutionStats run_where_asked(const Device& device) {
    Decision decision{.reason = hybrid::Reason::forced};
    if (device.is_cpu()) {
      run_on_cpu(decision);
    } else {
      if (const std::string why = refusal(call_, device.facts()); !why.empty()) {
        throw Error(ErrorCode::Unsupported,
                    std::string(name(call_.op)) + " on \"" + device.name() + "\": " + why);
      }
      run_on_device(device, decision, false);
    }
    if (placed_) {
      for (const auto& s : call_.outputs) s->place(device);
    }
    return stats_;
  }

  ExecutionStats run_where_decided() {
    const std::optional<Decision> decision = decide();
    decided_ = decision.has_value();
    const bool forced = asked().force == hybrid::Force::device;
    if (forced && decision->target == hybrid::kCpu) {
      routing().executor.scheduler().cancel(*decision);
      throw hybrid::no_device_error(shape_, decision->reason);
    }
    if (!decision || decision->target == hybrid::kCpu) {
      run_on_cpu(decision.value_or(Decision{.reason = hybrid::Reason::below_minimum}),
                 decision.has_value());
      return stats_;
    }
    std::optional<Error> failure;
    try {
      run_on_device(routing().devices[decision->target]->open(), *decision, true);
      return stats_;
    } catch (const Error& error) {
      if (!hybrid::is_device_failure(error.code())) {
        routing().executor.scheduler().cancel(*decision);
        throw;
      }
      failure = error;
    }
    hybrid::Outcome outcome;
    outcome.success = false;
    outcome.error = failure->code();
    routing().executor.record(shape_, *decision, outcome);
    if (forced) throw *failure;
    routing().executor.record_fallback(shape_, *decision, *failure);
    run_on_cpu(*decision, false);
    stats_.fallback = failure->what();
    return stats_;
  }

  /// Nothing for what is too small to ask: the executor lists devices when it is made.
  std::optional<Decision> decide() {
    const auto own = asked().min_batch_of.find(name(call_.op));
    const bool has_own = own != asked().min_batch_of.end();
    const std::uint64_t first = has_own ? own->second : row(call_.op).minimum;
    if (asked().force != hybrid::Force::device && call_.size < std::min(first, kLeastToAsk))
      return std::nullopt;
    Routing& r = routing();
    std::vector<std::uint64_t> resident(r.devices.size());
    std::uint64_t targets = 1;
    for (std::size_t k = 1; k < r.devices.size(); ++k) {
      if (!refusal(call_, r.devices[k]->facts).empty()) continue;
      targets |= std::uint64_t{1} << k;
      resident[k] = resident_on(*r.devices[k]);
    }
    shape_.targets = targets;
    shape_.resident = resident;
    // The guess holds until both sides have been measured near this size; a word of the user's does
    // always.
    const hybrid::Scheduler& scheduler = r.executor.scheduler();
    if (has_own) {
      shape_.minimum = own->second;
    } else if (scheduler.speed_up(shape_) > 0) {
      shape_.minimum = 1;
    } else {
      shape_.minimum =
          static_cast<std::uint64_t>(std::llround(scheduler.threshold(shape_.operation)));
    }
    const Decision decision = r.executor.decide(shape_);
    shape_.resident = {};
    return decision;
  }

  /// Without opening it: what was never opened holds nothing.
  std::uint64_t resident_on(const ListedDevice& listed) const {
    for (const auto& s : call_.inputs) {
      const Backend* written = s->written_on();
      if (written != nullptr && !written->is_cpu() && written->facts().name == listed.facts.name)
        return resident_bytes(call_, *written);
    }
    return 0;
  }

  void run_on_cpu(const Decision& decision, bool recorded = true) {
    stats_ = {.device = "cpu", .decision = decision};
    std::chrono::steady_clock::time_point start;
    try {
      for (const auto& s : call_.inputs) s->read_host();
      start = std::chrono::steady_clock::now();
      call_.on_cpu();
    } catch (...) {
      if (recorded && decided_) routing().executor.scheduler().cancel(decision);
      throw;
    }
    stats_.times.kernel =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    if (!recorded) return;
    hybrid::Outcome outcome;
    outcome.times = stats_.times;
    outcome.cold = WithoutLessons::any();
    if (!decided_) {
      if (is_worth_a_lesson()) routing().executor.scheduler().record(shape_, hybrid::kCpu, outcome);
    } else {
      routing().executor.record(shape_, decision, outcome);
    }
  }

  void run_on_device(const Device& device, const Decision& decision, bool decided) {
    Backend& backend = device.backend();
    const bool timed = decided || options_.stats != nullptr || teaches(device);
    const BackendCounters before = timed ? backend.counters() : BackendCounters{};
    const auto start = std::chrono::steady_clock::now();
    for (const auto& s : call_.inputs) s->read_on(backend);
    const auto brought = std::chrono::steady_clock::now();
    const bool clocked = timed && backend.begin_timing();
    try {
      call_.on_device(backend);
    } catch (...) {
      if (clocked) backend.end_timing([](std::optional<double>) {});
      throw;
    }
    stats_ = {.device = device.name(), .decision = decision};
    if (!timed) return;
    const BackendCounters used = backend.counters() - before;
    stats_.bytes_up = used.bytes_up;
    stats_.times.upload = std::chrono::duration<double, std::micro>(brought - start).count();
    if (clocked) {
      settle(device, backend, decision, used.compiled > 0 || WithoutLessons::any());
    } else if (decided) {
      // Somebody times what this is a part of: it ran, and teaches nothing.
      routing().executor.record(shape_, decision, {.cold = true});
    }
    if (options_.stats == nullptr) return;
    backend.synchronise();
    const double wall =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - brought)
            .count();
    stats_.times.kernel = kernel_us_ ? kernel_us_->value_or(wall) : wall;
    stats_.times.submit = std::max(0.0, wall - stats_.times.kernel);
  }

  /// Smaller ones teach what a call costs; the unit of products grows with the cube root of work.
  bool is_worth_a_lesson() const {
    return !WithoutLessons::any() && call_.size >= std::min(row(call_.op).minimum / 8, kLeastToAsk);
  }

  /// A placed run that the executor still learns from: those of a kernel and a size are enough
  /// after a few, but for some that tell whether they are as they were.
  bool teaches(const Device& device) const {
    if (!is_worth_a_lesson()) return false;
    thread_local std::uint64_t calls = 0;
    if (++calls % kUntimedRuns == 0) return true;
    const std::size_t target = routing().executor.find_device(device.name());
    return target != hybrid::kCpu &&
           routing().executor.scheduler().samples(shape_, target) < kTimedRuns;
  }

  /// Tells the executor once the device's time is known. A forced run is told, too: it was
  /// measured.
  void settle(const Device& device, Backend& backend, const Decision& decision, bool cold) {
    const std::size_t target = decision.target != hybrid::kCpu
                                   ? decision.target
                                   : routing().executor.find_device(device.name());
    kernel_us_ = std::make_shared<std::optional<double>>();
    backend.end_timing([shape = shape_, decision, target, cold, decided = decided_,
                        upload = stats_.times.upload, up = stats_.bytes_up,
                        told = kernel_us_](std::optional<double> us) {
      *told = us;
      hybrid::Scheduler& scheduler = routing().executor.scheduler();
      hybrid::Outcome outcome;
      outcome.times = {.upload = upload, .kernel = us.value_or(0)};
      outcome.bytes_up = up;
      outcome.cold = cold || !us;
      if (decided) {
        routing().executor.record(shape, decision, outcome);
      } else if (target != hybrid::kCpu) {
        scheduler.record(shape, target, outcome);
      }
    });
  }

  const OpCall& call_;
  const OpOptions& options_;
  TaskShape shape_;
  ExecutionStats stats_;
  bool placed_ = false;
  bool decided_ = false;  // by the executor, which is told how it went
  std::shared_ptr<std::optional<double>> kernel_us_;
};

}  // namespace

ExecutionStats run(const OpCall& call, const OpOptions& options) {
  OpOptions own = options;
  ExecutionStats recorded;
  RecordOperations* const record = recording();
  if (record != nullptr && own.stats == nullptr) own.stats = &recorded;
  last = Runner(call, own).run();
  if (record != nullptr) record->add({call.op, call.size, last, call.work.per_item(call.size)});
  if (options.stats != nullptr) *options.stats = last;
  return last;
}

const ExecutionStats& last_stats() { return last; }

hybrid::Executor& executor() { return routing().executor; }

OpMeasurement measured(Op op) {
  const hybrid::Knowledge knowledge = executor().scheduler().knowledge();
  OpMeasurement out{.threshold = executor().scheduler().threshold(name(op))};
  int largest = -1;
  std::vector<double> factors;  // of kernels measured at that size
  for (const auto& kernel : knowledge.kernels) {
    const auto cpu = kernel.targets.find("cpu");
    if (kernel.operation != name(op) || cpu == kernel.targets.end()) continue;
    bool both = false;
    for (const auto& [target, rows] : kernel.targets) {
      if (target == "cpu") continue;
      for (const hybrid::History::Row& there : rows) {
        for (const hybrid::History::Row& here : cpu->second) {
          if (here.size_class != there.size_class || there.us <= 0) continue;
          both = true;
          if (here.size_class < largest) continue;
          if (here.size_class > largest) factors.clear();
          largest = here.size_class;
          factors.push_back(here.us / there.us);
        }
      }
    }
    out.measured += both;
  }
  out.factor = median(std::move(factors));
  return out;
}

}  // namespace topograd::ops
