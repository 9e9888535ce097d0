// A simulated discrete GPU: operations take the time of its costs and compute nothing.
#pragma once

#include "../../ir/machine/stopwatch.hpp"
#include "../../ops/backend/backend.hpp"
#include "../../ops/backend/device_list.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd::test {

/// Costs in µs, rates in bytes per µs.
struct DeviceCosts {
  double record = 2;         ///< host time of a launch
  double submit = 10;        ///< host time of a submission
  double begin = 15;         ///< until submitted work starts
  double wake = 15;          ///< until the host sees its end
  double kernel = 5;         ///< shortest launch
  double memory = 2e6;       ///< read and written by a kernel
  double bus = 2e4;          ///< between host and device
  double invocations = 2e5;  ///< finished per µs
};

/// Keeps the host busy for the time of recording, submitting and waiting.
class ScriptedDevice final : public ops::OpBackend, public ops::QueueClock {
 public:
  explicit ScriptedDevice(DeviceCosts costs, std::string name = "scripted")
      : OpBackend({.name = std::move(name), .kind = "discrete"},
                  {.binding_bytes = std::uint64_t{1} << 32,
                   .groups = 65535,
                   .local_size = 1024,
                   .shared_bytes = 48 << 10,
                   .subgroup_size = 32,
                   .subgroup_arithmetic = true,
                   .subgroup_shuffle = true,
                   .int64 = true,
                   .int64_atomics = true,
                   .atomic_float32 = true,
                   .groups_progress = true}),
        costs_(costs) {}

  std::shared_ptr<ops::Memory> allocate(std::uint64_t bytes, std::string_view) override {
    return std::make_shared<Held>(bytes);
  }
  void upload(const std::shared_ptr<ops::Memory>&, std::uint64_t,
              std::span<const std::byte> from) override {
    const std::lock_guard lock(mutex_);
    if (staging_.size() < from.size()) staging_.resize(from.size());
    if (!from.empty()) std::memcpy(staging_.data(), from.data(), from.size());
    copies_us_ += 2 + static_cast<double>(from.size()) / costs_.bus;
    counters_.bytes_up += from.size();
  }
  void download(const std::shared_ptr<ops::Memory>&, std::uint64_t,
                std::span<std::byte> to) override {
    const std::lock_guard lock(mutex_);
    submit();
    copies_us_ += 2 + static_cast<double>(to.size()) / costs_.bus;
    submit();
    finish();
    std::fill(to.begin(), to.end(), std::byte{});
    counters_.bytes_down += to.size();
    settle();
  }
  void copy(const std::shared_ptr<ops::Memory>&, std::uint64_t, const std::shared_ptr<ops::Memory>&,
            std::uint64_t, std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    add(2 * bytes, 0);
  }
  void fill(const std::shared_ptr<ops::Memory>&, std::uint64_t, std::uint64_t bytes,
            std::uint32_t) override {
    const std::lock_guard lock(mutex_);
    add(bytes, 0);
  }
  void wait(const std::shared_ptr<ops::Memory>&) override { synchronise(); }

  void launch(const ops::Launch& launch) override {
    const std::lock_guard lock(mutex_);
    std::uint64_t bytes = 0;
    for (const ops::Argument& a : launch.arguments) bytes += a.bytes;
    std::uint64_t invocations = 1;
    for (const std::uint32_t n : launch.kernel->local_size) invocations *= n;
    for (const std::uint32_t n : {launch.groups.x, launch.groups.y, launch.groups.z})
      invocations *= n;
    add(bytes, invocations);
    ++counters_.launches;
  }
  bool prepare(const ops::ComputeKernel&) override { return false; }
  void flush() override {
    const std::lock_guard lock(mutex_);
    submit();
    settle();
  }
  void synchronise() override {
    const std::lock_guard lock(mutex_);
    submit();
    finish();
    settle();
  }
  ops::QueueClock& clock() override { return *this; }
  bool begin() override {
    const std::lock_guard lock(mutex_);
    if (timed_from_ >= 0) return false;
    timed_from_ = recorded_us_;
    return true;
  }
  void end(std::function<void(std::optional<double>)> done) override {
    const std::lock_guard lock(mutex_);
    timings_.push_back({recorded_us_ - timed_from_, 0, std::move(done)});
    timed_from_ = -1;
  }
  void when_done(std::function<void()> done) override {
    const std::lock_guard lock(mutex_);
    timings_.push_back({0, 0, [done = std::move(done)](std::optional<double>) { done(); }});
  }
  ops::BackendCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

  /// Its entry in the list of devices.
  static ops::ListedDevice listed(
      const std::shared_ptr<ScriptedDevice>& device,
      std::function<std::unique_ptr<runtime::hybrid::DeviceBackend>()> for_executor) {
    return {.facts = device->facts(),
            .preferred = true,
            .open = [device] { return ops::Device(device); },
            .for_executor = std::move(for_executor)};
  }

 private:
  struct Held final : ops::Memory {
    using Memory::Memory;
    std::byte* host() const override { return nullptr; }
  };
  struct Timing {
    double us;
    double ends;  ///< of its submission; 0: not submitted
    std::function<void(std::optional<double>)> done;
  };

  double now() const { return 1e6 * seconds_since(start_); }
  void spin(double us) const {
    for (const double end = now() + us; now() < end;) {
    }
  }
  void add(std::uint64_t bytes, std::uint64_t invocations) {
    const double us = costs_.kernel + static_cast<double>(bytes) / costs_.memory +
                      static_cast<double>(invocations) / costs_.invocations;
    kernels_us_ += us;
    recorded_us_ += us;
    spin(costs_.record);
  }
  void submit() {
    if (kernels_us_ + copies_us_ == 0) return;
    spin(costs_.submit);
    ends_ = std::max(now() + costs_.begin, ends_) + copies_us_ + kernels_us_;
    kernels_us_ = copies_us_ = 0;
    ++counters_.submissions;
    for (Timing& timing : timings_)
      if (timing.ends == 0) timing.ends = ends_;
  }
  void finish() {
    if (now() >= ends_) return;
    spin(ends_ - now() + costs_.wake);
  }
  void settle() {
    while (!timings_.empty() && timings_.front().ends > 0 && timings_.front().ends <= now()) {
      const Timing timing = std::move(timings_.front());
      timings_.pop_front();
      timing.done(timing.us);
    }
  }

  const DeviceCosts costs_;
  mutable std::mutex mutex_;  // guards the members below
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<std::byte> staging_;
  double kernels_us_ = 0, copies_us_ = 0;  // recorded, not submitted
  double ends_ = 0;                        // of all submitted work
  double recorded_us_ = 0, timed_from_ = -1;
  std::deque<Timing> timings_;
  ops::BackendCounters counters_;
};

}  // namespace topograd::test
