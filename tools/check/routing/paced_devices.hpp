// Internal: two simulated devices of known speed, for checks of how tasks are distributed.
#pragma once

#include "../../../runtime/hybrid/executor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace topograd::check {

/// A device that runs one program at a time and takes a known time for it.
class PacedDevice final : public runtime::hybrid::DeviceBackend {
 public:
  struct State {
    double us_per_item = 1, overhead_us = 100;
    std::atomic<int> runs{0}, at_once{0}, most_at_once{0};
    std::atomic<std::uint64_t> items{0}, busy_ns{0};

    double us(double items_of_one) const { return overhead_us + us_per_item * items_of_one; }
  };

  PacedDevice(std::shared_ptr<State> state, std::string name)
      : state_(std::move(state)), name_(std::move(name)) {}

  runtime::hybrid::Capabilities capabilities() const override {
    return {.name = name_, .kind = "simulated"};
  }
  runtime::hybrid::RunReport run(const runtime::hybrid::DeviceProgram& program) override {
    return take(program.items);
  }
  void prepare(const runtime::hybrid::DeviceProgram&) override {}
  void reopen() override {}

  /// Waits as long as the items take. The first run is a cold one.
  runtime::hybrid::RunReport take(std::uint64_t items) {
    state_->most_at_once = std::max<int>(state_->most_at_once, ++state_->at_once);
    const std::lock_guard lock(one_);
    const double us = state_->us(static_cast<double>(items));
    // A host that wakes up late has queued its next program in time, as with a real device.
    const auto now = Clock::now();
    if (now > busy_until_ + kLate) busy_until_ = now;
    busy_until_ +=
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::micro>(us));
    std::this_thread::sleep_until(busy_until_);
    --state_->at_once;
    state_->items += items;
    state_->busy_ns += static_cast<std::uint64_t>(1e3 * us);
    return {.times = {.kernel = us}, .cold = state_->runs++ == 0};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLate{3};

  std::shared_ptr<State> state_;
  std::string name_;
  std::mutex one_;
  Clock::time_point busy_until_{};
};

/// Work that the CPU does very slowly.
class PacedTask final : public runtime::hybrid::Task {
 public:
  static constexpr std::uint64_t kItems = 1000;

  /// `itemwise`: tasks of a list may run as one.
  explicit PacedTask(bool itemwise) : itemwise_(itemwise) {}

  runtime::hybrid::TaskShape shape() const override {
    return {.kernel = {3, itemwise_ ? 1u : 2u}, .operation = "paced", .size = kItems};
  }
  void run_on_cpu(const runtime::hybrid::CpuThreads&, runtime::hybrid::Items) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::optional<runtime::hybrid::DeviceProgram> program(runtime::hybrid::Items items) override {
    if (!itemwise_) return std::nullopt;
    return runtime::hybrid::DeviceProgram{
        .name = "paced", .items = items.count(), .itemwise = true};
  }
  runtime::hybrid::RunReport run_on_device(runtime::hybrid::DeviceBackend& device,
                                           runtime::hybrid::Items items) override {
    return dynamic_cast<PacedDevice&>(device).take(items.count());
  }

 private:
  bool itemwise_;
};

/// Tasks, and the times of an item on each of two devices.
struct PacedRow {
  const char* what;
  double us_first, us_second;
  bool joined;     ///< each device runs its tasks as one
  bool submitted;  ///< one by one, instead of as a list
  int tasks = 40;
};

inline constexpr PacedRow kPacedRows[] = {
    {"a list, equal devices", 4, 4, false, false},
    {"a list, the second one faster", 12, 4, false, false},
    {"submitted, equal devices", 4, 4, false, true},
    {"submitted, the second one faster", 12, 4, false, true},
    {"submitted, the first one faster", 4, 12, false, true},
    {"joined, equal devices", 4, 4, true, false},
    {"joined, the second one faster", 12, 4, true, false},
};

/// An executor with two devices.
struct PacedPair {
  std::shared_ptr<PacedDevice::State> first = std::make_shared<PacedDevice::State>(),
                                      second = std::make_shared<PacedDevice::State>();
  runtime::hybrid::Executor executor{runtime::hybrid::HybridOptions{}};

  PacedPair(double us_first, double us_second) {
    first->us_per_item = us_first;
    second->us_per_item = us_second;
    executor.add_device(std::make_unique<PacedDevice>(first, "first"));
    executor.add_device(std::make_unique<PacedDevice>(second, "second"));
  }

  /// The least possible time of the row's tasks, in µs.
  double best_us(const PacedRow& row) const {
    const auto us_of = [&](const PacedDevice::State& device, int tasks) {
      if (tasks == 0) return 0.0;
      const double items = static_cast<double>(PacedTask::kItems);
      return row.joined ? device.us(tasks * items) : tasks * device.us(items);
    };
    double best = std::numeric_limits<double>::infinity();
    for (int k = 0; k <= row.tasks; ++k)
      best = std::min(best, std::max(us_of(*first, k), us_of(*second, row.tasks - k)));
    return best;
  }

  /// Runs the tasks and returns the time in µs, and in `busy_us` that of the device that had most
  /// to do, which says how tasks were distributed, whatever else this machine does.
  double run(const PacedRow& row, double* busy_us = nullptr) {
    const std::uint64_t ns[] = {first->busy_ns, second->busy_ns};
    std::vector<std::unique_ptr<PacedTask>> tasks;
    std::vector<runtime::hybrid::Task*> list;
    for (int k = 0; k < row.tasks; ++k)
      list.push_back(tasks.emplace_back(std::make_unique<PacedTask>(row.joined)).get());
    const auto start = std::chrono::steady_clock::now();
    if (row.submitted) {
      std::vector<std::future<runtime::hybrid::ExecutionStats>> futures;
      for (runtime::hybrid::Task* task : list) futures.push_back(executor.submit(*task));
      for (auto& future : futures) future.get();
    } else {
      executor.execute(list);
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (busy_us != nullptr)
      *busy_us =
          1e-3 * static_cast<double>(std::max(first->busy_ns - ns[0], second->busy_ns - ns[1]));
    return took.count();
  }
};

}  // namespace topograd::check
