// Decides where an operation runs, runs it, reports its time; and scopes of a thread.
#include "run.hpp"

#include <tbb/info.h>
#include <algorithm>
#include <chrono>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../runtime/hybrid/executor.hpp"
#include "../backend/device_list.hpp"
#include "chain.hpp"
#include "inspection.hpp"

namespace topograd::ops {
namespace {

namespace hybrid = runtime::hybrid;
using hybrid::Decision;
using hybrid::TaskShape;

// Runs without a decision of one kernel near one size: the first kTimedRuns are timed, then one
// after every kUntimedRuns untimed ones.
constexpr std::uint64_t kTimedRuns = 8, kUntimedRuns = 64;
// Operations on host data with less CPU time are not routed: routing would cost as much.
constexpr double kLeastMicroseconds = 0.5;
// Approximate times per thread of an operation, a byte and a random access, in µs.
constexpr double kOperationMicroseconds = 1e-3, kByteMicroseconds = 5e-4,
                 kRandomMicroseconds = 2e-2;

hybrid::Executor& shared_executor() { return *hybrid::process_executor(); }
hybrid::OutsideWork& outside_work() { return shared_executor().outside_work(); }
const hybrid::HybridOptions& asked() { return shared_executor().scheduler().options(); }

/// The executor's devices, by target.
struct Routing {
  std::vector<const ListedDevice*> devices = {nullptr};

  Routing() {
    for (const ListedDevice& listed : listed_devices()) {
      const std::size_t target =
          shared_executor().target_of(listed.facts.name, [&] { return listed.for_executor(); });
      if (target >= devices.size()) devices.resize(target + 1);
      // Solves use the preferred one of several devices with one name.
      if (devices[target] == nullptr || listed.preferred) devices[target] = &listed;
    }
  }

  /// kCpu for the CPU, and for backends unknown to the executor.
  std::size_t target_of(const OpBackend& backend) const {
    for (std::size_t k = 1; k < devices.size(); ++k)
      if (devices[k] != nullptr && devices[k]->facts.name == backend.facts().name) return k;
    return hybrid::kCpu;
  }
};

const Routing& routing() {
  static const Routing& instance = *new Routing;
  return instance;
}

Whereabouts whereabouts(const Storage& storage) {
  const OpBackend* const there = storage.on_device();
  return {.on_host = storage.on_host(),
          .device = there == nullptr ? hybrid::kCpu : routing().target_of(*there)};
}

// For this thread: µs of all kernels whose times are known; true if queued work has no known time;
// bytes copied to devices since the last read.
thread_local double settled_us = 0;
thread_local bool queued_untimed = false;
thread_local std::uint64_t sent_bytes = 0;
// Non-zero while an operation on the CPU, and not the program, reads operands.
thread_local int running_on_cpu = 0;

thread_local ExecutionStats last;

std::uint64_t sum_bytes(std::span<const std::shared_ptr<Storage>> storages) {
  std::uint64_t sum = 0;
  for (const auto& s : storages) sum += s->bytes();
  return sum;
}

/// The device on which inputs were placed. Throws if two inputs disagree.
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

/// The reason why a device does not support the operation; empty if it does.
std::string refusal(const OpCall& call, const DeviceFacts& device) {
  if (!call.on_device)
    return call.device_refusal.empty() ? "has no implementation there"
                                       : std::string(call.device_refusal);
  if (call.needs_float64 && !device.float64) return "expects a device with float64";
  return {};
}

/// Approximate time with half of the threads, because few operations use all of them well.
double most_cpu_us(const Work& work, std::uint64_t items) {
  static const double kThreads = std::max(1.0, 0.5 * tbb::info::default_concurrency());
  const bool random = work.pattern == hybrid::MemoryPattern::gather ||
                      work.pattern == hybrid::MemoryPattern::scatter;
  const double one = kOperationMicroseconds * work.operations +
                     kByteMicroseconds * (work.bytes_read + work.bytes_written) +
                     (random ? kRandomMicroseconds * static_cast<double>(items) : 0);
  return one / kThreads;
}

/// One call: its shape for the executor, and statistics of its run.
class Runner {
 public:
  Runner(const OpCall& call, const OpOptions& options) : call_(call), options_(options) {
    shape_.kernel = call.kernel;
    shape_.operation = name(call.op);
    shape_.size = call.size;
    shape_.bytes_in = sum_bytes(call.inputs);
    shape_.bytes_out = sum_bytes(call.outputs);
    shape_.bytes_held = shape_.bytes_in + shape_.bytes_out;
    shape_.features = call.work.per_item(call.size);
    shape_.queued = true;
    shape_.first_threshold = row(call.op).minimum;
    shape_.most_cpu_us = most_cpu_us(call.work, call.size);
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
    const Decision decision = reserve(device);
    try {
      if (device.is_cpu()) {
        run_on_cpu(decision);
      } else {
        run_on_device(device, decision);
      }
    } catch (const Error& error) {
      if (reserved_ && !device.is_cpu()) answer_failure(decision, error);
      throw;
    }
    const auto maker = std::make_shared<Maker>();
    maker->operation = shape_.operation;
    for (const auto& s : call_.outputs) {
      s->made_by(maker);
      if (placed_) s->place(device);
    }
    return stats_;
  }

  /// Adds a run on a requested device to the load that later decisions see.
  Decision reserve(const Device& device) {
    Decision decision{.reason = hybrid::Reason::forced};
    if (!device.is_cpu()) {
      if (const std::string why = refusal(call_, device.facts()); !why.empty()) {
        throw Error(ErrorCode::Unsupported,
                    std::string(name(call_.op)) + " on \"" + device.name() + "\": " + why);
      }
      decision.target = decision.device = routing().target_of(device.backend());
    }
    const bool small = shape_.most_cpu_us < kLeastMicroseconds;
    if (device.is_cpu() ? small : decision.target == hybrid::kCpu) {
      outside_work().routed(shape_.operation, decision);
      return decision;
    }
    const std::vector<std::uint64_t> resident = locate();
    shape_.resident = resident;
    reserved_ = true;
    decision = outside_work().follow(shape_, decision);
    shape_.resident = {};
    return decision;
  }

  /// Records the failure if the device is at fault; other errors belong to the caller.
  void answer_failure(const Decision& decision, const Error& error) {
    if (hybrid::is_device_failure(error.code())) {
      outside_work().record(shape_, decision, {.success = false, .error = error.code()});
    } else {
      shared_executor().scheduler().cancel(decision);
    }
  }

  ExecutionStats run_where_decided() {
    Chain& chain = Chain::of_thread();
    const bool known = chain.next(call_, shape_);
    const Decision decision = decide(chain, known);
    const bool forced = asked().force == hybrid::Force::device;
    if (forced && decision.target == hybrid::kCpu) {
      if (reserved_) shared_executor().scheduler().cancel(decision);
      throw hybrid::no_device_error(shape_, decision.reason);
    }
    if (decision.target == hybrid::kCpu) {
      run_on_cpu(decision);
      chain.ran(call_, hybrid::kCpu);
      return stats_;
    }
    std::optional<Error> failure;
    try {
      run_on_device(routing().devices[decision.target]->open(), decision);
      chain.ran(call_, decision.target);
      return stats_;
    } catch (const Error& error) {
      answer_failure(decision, error);
      if (forced || !hybrid::is_device_failure(error.code())) throw;
      failure = error;
    }
    outside_work().record_fallback(shape_, decision, *failure);
    chain.place(std::nullopt);
    decided_ = reserved_ = false;
    run_on_cpu({.device = decision.device, .reason = decision.reason});
    chain.ran(call_, hybrid::kCpu);
    stats_.decision = decision;
    stats_.fallback = failure->what();
    return stats_;
  }

  /// The minimum size that the user has set for the operation.
  std::optional<std::uint64_t> own_minimum() const {
    const auto own = asked().min_batch_of.find(name(call_.op));
    return own == asked().min_batch_of.end() ? std::nullopt : std::optional(own->second);
  }

  /// Small operations stay on the CPU without listing devices.
  Decision decide(Chain& chain, bool known) {
    const std::optional<std::uint64_t> own = own_minimum();
    const bool small =
        call_.size < own.value_or(row(call_.op).minimum) && shape_.most_cpu_us < kLeastMicroseconds;
    const bool away = std::ranges::any_of(
        call_.inputs, [](const auto& s) { return !s->on_host() && s->on_device() != nullptr; });
    const bool forced = asked().force != hybrid::Force::none;
    shape_.minimum = own;
    if (known && !forced && chain.expected_length() > 1 &&
        chain.expected_cpu_us() >= kLeastMicroseconds)
      place(chain);
    const bool to_device = chain.placed() && chain.placed()->target != hybrid::kCpu;
    if (!forced && small && !away && !to_device) return undecided();
    std::vector<std::uint64_t> resident = describe();
    chain.described(shape_);
    shape_.resident = resident;
    if (const auto read = chain.expected_read()) shape_.bytes_out = *read;
    const std::optional<Decision> placed = forced ? std::nullopt : chain.placed();
    Decision decision;
    if (placed && (shape_.targets >> placed->target & 1) != 0 && call_.size >= own.value_or(0)) {
      decision = outside_work().follow(shape_, *placed);
    } else {
      // Operands on a device have no minimum size.
      if (away && !own) shape_.minimum = 1;
      decision = outside_work().decide(shape_);
    }
    decided_ = reserved_ = true;
    shape_.resident = {};
    return decision;
  }

  Decision undecided() {
    const Decision decision{.reason = hybrid::Reason::below_minimum};
    outside_work().routed(shape_.operation, decision);
    return decision;
  }

  /// Places the rest of the chain, as it went last time, on the backend with the least total time.
  static void place(Chain& chain) {
    const auto tasks =
        chain.expected(routing().devices.size(), [](const Storage& s) { return whereabouts(s); });
    Decision placed = shared_executor().scheduler().place(tasks);
    if (placed.reason != hybrid::Reason::explored) placed.reason = hybrid::Reason::together;
    chain.place(placed);
  }

  /// Finds the locations of the operands by target, and the targets that can run the operation.
  std::vector<std::uint64_t> describe() {
    const Routing& r = routing();
    std::uint64_t targets = 1;
    for (std::size_t k = 1; k < r.devices.size(); ++k) {
      if (r.devices[k] == nullptr || !refusal(call_, r.devices[k]->facts).empty()) continue;
      targets |= std::uint64_t{1} << k;
      shape_.admit_software |= r.devices[k]->asked_for;
    }
    shape_.targets = targets;
    return locate();
  }

  /// Bytes of the operands on each target.
  std::vector<std::uint64_t> locate() {
    std::vector<std::uint64_t> resident(routing().devices.size());
    for (const auto& s : call_.inputs) {
      const Whereabouts where = whereabouts(*s);
      if (where.device == hybrid::kCpu) continue;
      resident[where.device] += s->bytes();
      if (where.on_host) continue;
      shape_.bytes_away += s->bytes();
      shape_.away_on = where.device;
    }
    return resident;
  }

  void run_on_cpu(const Decision& decision) {
    stats_ = {.device = "cpu", .on_cpu = true, .decision = decision};
    hybrid::Executor& executor = shared_executor();
    std::chrono::steady_clock::time_point start;
    ++running_on_cpu;
    try {
      for (const auto& s : call_.inputs) s->read_host();
      start = std::chrono::steady_clock::now();
      call_.on_cpu();
    } catch (...) {
      --running_on_cpu;
      if (reserved_) executor.scheduler().cancel(decision);
      throw;
    }
    --running_on_cpu;
    stats_.times.kernel =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    hybrid::Outcome outcome;
    outcome.times = stats_.times;
    outcome.cold = UnrecordedRuns::any() || (!decided_ && !teaches(hybrid::kCpu));
    if (reserved_) return executor.outside_work().record(shape_, decision, outcome);
    if (!outcome.cold) executor.scheduler().record(shape_, hybrid::kCpu, outcome);
    executor.outside_work().ran(shape_, hybrid::kCpu, outcome, decision);
  }

  void run_on_device(const Device& device, const Decision& decision) {
    OpBackend& backend = device.backend();
    const bool timed =
        decided_ || options_.stats != nullptr || (reserved_ && teaches(decision.target));
    const BackendCounters before = backend.counters();
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t there = 0;
    for (const auto& s : call_.inputs) {
      there += s->resident_on(backend) ? 1 : 0;
      s->read_on(backend);
    }
    const auto brought = std::chrono::steady_clock::now();
    const bool clocked = timed && backend.clock().begin();
    try {
      call_.on_device(backend);
    } catch (...) {
      if (clocked) backend.clock().end([](std::optional<double>) {});
      throw;
    }
    const auto recorded = std::chrono::steady_clock::now();
    const auto us = [](auto from, auto to) {
      return std::chrono::duration<double, std::micro>(to - from).count();
    };
    const BackendCounters used = backend.counters() - before;
    stats_ = {.device = device.name(), .decision = decision};
    stats_.times.upload = us(start, brought);
    stats_.times.submit = us(brought, recorded);
    stats_.bytes_up = used.bytes_up;
    stats_.cache_hits = there + (used.launches - std::min(used.launches, used.compiled));
    queued_untimed |= !clocked;
    sent_bytes += used.bytes_up;
    settle(backend, decision, clocked, used.compiled > 0 || UnrecordedRuns::any());
    if (options_.stats == nullptr) return;
    backend.synchronise();
    const double wall = us(brought, std::chrono::steady_clock::now());
    stats_.times.kernel = kernel_us_ ? kernel_us_->value_or(wall) : wall;
    stats_.times.submit = std::max(0.0, wall - stats_.times.kernel);
  }

  /// True if the executor should learn from a run without a decision: the first few of a kernel and
  /// size, and later some that detect changes.
  bool teaches(std::size_t target) const {
    if (UnrecordedRuns::any()) return false;
    thread_local std::uint64_t calls = 0;
    if (++calls % kUntimedRuns == 0) return true;
    return shared_executor().scheduler().samples(shape_, target) < kTimedRuns;
  }

  /// Reports the run to the executor, timed runs once the device's time is known.
  void settle(OpBackend& backend, const Decision& decision, bool clocked, bool cold) {
    hybrid::Outcome outcome;
    outcome.times = {.upload = stats_.times.upload, .submit = stats_.times.submit};
    outcome.bytes_up = stats_.bytes_up;
    outcome.cache_hits = stats_.cache_hits;
    outcome.cold = cold;
    if (!clocked) {
      // The time is not measured, or is part of another measurement: nothing is learned.
      outcome.cold = outcome.untimed = true;
      if (!reserved_) return;
      outside_work().ran(shape_, decision.target, outcome, decision);
      backend.clock().when_done([shape = shape_, decision, outcome] {
        shared_executor().scheduler().record(shape, decision, outcome);
      });
      return;
    }
    kernel_us_ = std::make_shared<std::optional<double>>();
    backend.clock().end([shape = shape_, decision, reserved = reserved_, outcome,
                         measured = kernel_us_](std::optional<double> us) mutable {
      *measured = us;
      settled_us += us.value_or(0);
      outcome.times.kernel = us.value_or(0);
      outcome.cold |= !us;
      outcome.untimed = !us;
      // Devices unknown to the executor are not recorded.
      if (reserved) outside_work().record(shape, decision, outcome);
    });
  }

  const OpCall& call_;
  const OpOptions& options_;
  TaskShape shape_;
  ExecutionStats stats_;
  bool placed_ = false;
  bool decided_ = false;   // by the executor
  bool reserved_ = false;  // the executor waits for the outcome
  std::shared_ptr<std::optional<double>> kernel_us_;
};

thread_local std::optional<Device> device_of_scope;
thread_local RecordOperations* innermost = nullptr;

}  // namespace

HostRead::HostRead() : begin_(std::chrono::steady_clock::now()), kernels_us_(settled_us) {}

bool HostRead::wanted(Maker& maker, std::uint64_t bytes) {
  if (running_on_cpu > 0) return false;
  maker.read += bytes;
  Chain::of_thread().was_read();
  return true;
}

/// The time of a read, minus that of the kernels it waited for, is the cost of the transfer.
void HostRead::moved(const Maker* maker, const OpBackend& from, std::uint64_t bytes) const {
  const std::size_t target = routing().target_of(from);
  if (target == hybrid::kCpu) return;
  const bool untimed = std::exchange(queued_untimed, false) || UnrecordedRuns::any();
  const std::uint64_t sent = std::exchange(sent_bytes, 0);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin_;
  const double beside = std::max(1.0, took.count() - (settled_us - kernels_us_));
  outside_work().read_back(maker ? maker->operation : "read", target, sent, bytes,
                           untimed ? std::nullopt : std::optional(beside));
}

namespace {

/// The device for OpOptions::cross_check.
Device device_to_check(const OpCall& call, const OpOptions& options) {
  for (const std::optional<Device>& one : {options.device, scope_device(), placement(call)})
    if (one && !one->is_cpu()) return *one;
  const Device best = Device::best();
  return best.is_cpu() ? Device::vulkan() : best;
}

/// Runs the operation on a device and then on the CPU, each with the same outputs before.
ExecutionStats run_on_both(const OpCall& call, const OpOptions& options) {
  const Device device = device_to_check(call, options);
  const UnrecordedRuns unrecorded;
  const std::optional<Device> placed =
      options.device || scope_device() ? std::nullopt : placement(call);
  const OpOptions here{.device = Device::cpu(), .stats = options.stats};
  ExecutionStats out;
  if (device.is_cpu() || !refusal(call, device.facts()).empty()) {
    out = Runner(call, here).run();
  } else {
    const OutputContents outputs(call);
    const OpOptions on_device{.device = device, .stats = options.stats};
    try {
      out = Runner(call, on_device).run();
    } catch (...) {
      outputs.restore();
      throw;
    }
    const auto there = outputs.now();
    outputs.restore();
    Runner(call, here).run();
    out.checked = compare_outputs(call, device.name(), there);
  }
  for (const auto& storage : call.outputs)
    if (placed) storage->place(placed);
  return out;
}

}  // namespace

ExecutionStats run(const OpCall& call, const OpOptions& options) {
  OpOptions own = options;
  ExecutionStats recorded;
  RecordOperations* const record = recording();
  if (record != nullptr && own.stats == nullptr) own.stats = &recorded;
  std::ostream* const values = own.values ? own.values : inspection().values;
  std::string text;
  if (values != nullptr) {
    text = std::string(name(call.op)) + " of " + std::to_string(call.size) + "\n" +
           operands_text(call);
  }
  last = own.cross_check || inspection().cross_check ? run_on_both(call, own)
                                                     : Runner(call, own).run();
  if (values != nullptr) *values << text << results_text(call, last.device);
  if (record != nullptr) record->add({call.op, call.size, last, call.work.per_item(call.size)});
  if (options.stats != nullptr) *options.stats = last;
  return last;
}

const ExecutionStats& last_stats() { return last; }

hybrid::Executor& executor() { return shared_executor(); }

namespace {

/// Times on the CPU over those on devices, at the largest size that was measured on both.
struct Factors {
  int largest = -1;  ///< class of that size
  std::vector<double> values;

  void add(int size_class, double factor) {
    if (size_class < largest) return;
    if (size_class > largest) values.clear();
    largest = size_class;
    values.push_back(factor);
  }
  /// Returns false if no size was measured on both.
  bool add(const std::vector<hybrid::History::Row>& cpu,
           const std::vector<hybrid::History::Row>& device) {
    bool both = false;
    for (const hybrid::History::Row& there : device) {
      for (const hybrid::History::Row& here : cpu) {
        if (here.size_class != there.size_class || there.us <= 0) continue;
        both = true;
        add(here.size_class, here.us / there.us);
      }
    }
    return both;
  }
};

}  // namespace

OpMeasurement measured(Operation op) {
  routing();  // loads what was learned on a device
  const hybrid::Knowledge knowledge = executor().scheduler().knowledge();
  OpMeasurement out{.threshold = executor().scheduler().threshold(name(op), row(op).minimum)};
  Factors factors;
  for (const auto& kernel : knowledge.kernels) {
    const auto cpu = kernel.targets.find("cpu");
    if (kernel.operation != name(op) || cpu == kernel.targets.end()) continue;
    bool both = false;
    for (auto device = kernel.targets.begin(); device != kernel.targets.end(); ++device) {
      if (device != cpu && factors.add(cpu->second, device->second)) both = true;
    }
    out.measured += both;
  }
  out.factor = median(std::move(factors.values));
  return out;
}

OnDevice::OnDevice(Device device) : before_(std::exchange(device_of_scope, std::move(device))) {}
OnDevice::~OnDevice() { device_of_scope = std::move(before_); }

RecordOperations::RecordOperations() : before_(std::exchange(innermost, this)) {}
RecordOperations::~RecordOperations() { innermost = before_; }

const std::optional<Device>& scope_device() { return device_of_scope; }
RecordOperations* recording() { return innermost; }

}  // namespace topograd::ops
