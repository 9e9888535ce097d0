// Submission to the queue and bounded waits on its timeline.
#include "queue.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core.hpp"
#include "opened.hpp"

namespace topograd::runtime::vulkan {
namespace {

using Clock = std::chrono::steady_clock;

// Interval at which a long wait checks for progress.
constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(100);

// A thread that the driver puts to sleep is woken tens of microseconds after the end of the work,
// which is longer than many evaluations take. So waits begin with looking at the timeline.
constexpr std::chrono::nanoseconds kPatience = std::chrono::milliseconds(1);

// Compile times of the software device at a kernel's first run: 12 to 200 ms on a quiet machine,
// and 250 to 300 ms per thousand words of long ones (KernelState::first_runs).
constexpr double kSecondsToCompile = 2;

}  // namespace

void Queue::start() {
  queue_ = core_.device.getQueue(core_.family, 0);
  core_.set_name(queue_, "topograd_queue");
  // A driver without hardware has no memory, compiles, and runs nothing.
  if (core_.physical.getMemoryProperties().memoryTypeCount == 0) return;
  const vk::SemaphoreTypeCreateInfo type(vk::SemaphoreType::eTimeline, 0);
  timeline_ = core_.driver.call("vkCreateSemaphore", [&] {
    return core_.device.createSemaphore(vk::SemaphoreCreateInfo({}, &type));
  });
  core_.set_name(timeline_, "topograd_timeline");
  core_.driver.set_probe([this] {
    try {
      (void)timeline_.getCounterValue();
      return vk::Result::eSuccess;
    } catch (const vk::SystemError& error) {
      return static_cast<vk::Result>(error.code().value());
    }
  });
}

std::uint64_t Queue::submit(std::span<const Work> works, LiveTransfers& account) {
  std::vector<vk::CommandBuffer> commands;
  InFlight flight;
  for (const Work& work : works) {
    commands.push_back(work.commands);
    flight.keep.push_back(work.keep);
    flight.first_runs += work.first_runs;
  }
  if (flight.first_runs > 0) outlive_driver_compiler();
  const std::lock_guard lock(mutex_);
  flight.value = last_ + 1;
  const vk::TimelineSemaphoreSubmitInfo values({}, flight.value);
  const vk::SubmitInfo info({}, {}, commands, *timeline_, &values);
  in_flight_.push_back(std::move(flight));
  try {
    core_.driver.call("vkQueueSubmit", [&] { queue_.submit(info); });
  } catch (const Error&) {
    if (!core_.driver.lost()) in_flight_.pop_back();
    throw;
  }
  ++last_;
  account.add({.submissions = 1});
  for (const Work& work : works) {
    for (const auto& buffer : work.buffers) buffer->last_use = last_.load();
  }
  return last_;
}

std::uint64_t Queue::completed() {
  return core_.driver.call("vkGetSemaphoreCounterValue",
                           [&] { return timeline_.getCounterValue(); });
}

double Queue::own_bound() const {
  std::uint64_t compiling = 0;
  const std::lock_guard lock(mutex_);
  if (core_.info.software()) {
    for (const InFlight& flight : in_flight_) compiling += flight.first_runs;
  }
  return core_.options.timeout_seconds + kSecondsToCompile * static_cast<double>(compiling);
}

void Queue::wait(std::uint64_t value, double bound_seconds) {
  if (bound_seconds <= 0) bound_seconds = own_bound();
  const vk::SemaphoreWaitInfo info({}, *timeline_, value);
  const auto bound = std::chrono::duration<double>(bound_seconds);
  Clock::time_point progress = Clock::now();
  std::uint64_t seen = completed();
  if (!core_.info.software()) {
    while (seen < value && Clock::now() - progress < kPatience) {
      std::this_thread::yield();
      seen = completed();
    }
  }
  while (seen < value) {
    const auto left = bound - (Clock::now() - progress);
    if (left <= left.zero()) {
      throw Error(ErrorCode::Timeout,
                  "vulkan: device \"" + core_.info.name + "\" finished nothing for " +
                      std::to_string(bound_seconds) + " s (at submission " + std::to_string(seen) +
                      ", waiting for " + std::to_string(value) + ")");
    }
    const auto slice = std::min<std::chrono::duration<double, std::nano>>(kSlice, left);
    (void)core_.driver.call("vkWaitSemaphores", [&] {
      return core_.device.waitSemaphores(info, static_cast<std::uint64_t>(slice.count()) + 1);
    });
    const std::uint64_t now = completed();
    if (now > seen) progress = Clock::now();
    seen = now;
  }
  reap(seen);
}

void Queue::reap(std::uint64_t completed) {
  // Declared before the lock, so destroyed after it: released objects return memory to the pools.
  std::vector<InFlight> finished;
  const std::lock_guard lock(mutex_);
  std::uint64_t compiled = 0;
  while (!in_flight_.empty() && in_flight_.front().value <= completed) {
    compiled += in_flight_.front().first_runs;
    finished.push_back(std::move(in_flight_.front()));
    in_flight_.pop_front();
  }
  if (compiled > 0 && core_.info.software()) note_driver_compiled();
}

bool Queue::reached(std::uint64_t value) const noexcept {
  if (value == 0) return true;  // nothing was submitted
  try {
    return timeline_.getCounterValue() >= value;
  } catch (const vk::DeviceLostError&) {
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace topograd::runtime::vulkan
