// Records, orders, submits and times launches on a Vulkan device.
#include "recorder.hpp"

#include "../../ir/error.hpp"
#include "../run/storage.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

namespace topograd::ops {
namespace {

namespace vk = runtime::vulkan;

// A submission costs some microseconds. This is short enough for the device to begin early, and far
// below the limits of watchdogs.
constexpr double kSubmissionMicroseconds = 5'000;
constexpr std::size_t kLaunchesOfSubmission = 48;
// Maximum number of pending submissions; each keeps its resources alive.
constexpr std::size_t kSubmissionsInFlight = 8;
// Bytes per microsecond that even slow devices move, and the overhead of a launch.
constexpr double kDeviceRate = 100'000, kSoftwareRate = 2'000, kLaunchMicroseconds = 5;

std::string describe(const ComputeKernel& kernel, std::size_t argument) {
  return "kernel \"" + kernel.name + "\": argument " + std::to_string(argument) + ": ";
}

void check(const Launch& launch, const vk::Limits& limits) {
  const ComputeKernel& kernel = *launch.kernel;
  if (launch.arguments.size() != kernel.arguments || launch.words.size() != kernel.words) {
    throw Error(ErrorCode::InvalidArgument,
                "kernel \"" + kernel.name + "\": expected " + std::to_string(kernel.arguments) +
                    " arguments and " + std::to_string(kernel.words) + " words, got " +
                    std::to_string(launch.arguments.size()) + " and " +
                    std::to_string(launch.words.size()));
  }
  for (std::size_t k = 0; k < launch.arguments.size(); ++k) {
    const Argument& a = launch.arguments[k];
    if (a.offset % a.element != 0 || a.offset > a.memory->bytes() ||
        a.bytes > a.memory->bytes() - a.offset) {
      throw Error(ErrorCode::InvalidArgument, describe(kernel, k) + "bytes " +
                                                  std::to_string(a.offset) + " + " +
                                                  std::to_string(a.bytes) + " do not lie in its " +
                                                  std::to_string(a.memory->bytes()) + " bytes");
    }
    if (a.bytes > limits.max_storage_buffer_range - kBindingSlack) {
      throw Error(ErrorCode::OutOfDeviceMemory,
                  describe(kernel, k) + std::to_string(a.bytes) +
                      " bytes are over the device's limit of " +
                      std::to_string(limits.max_storage_buffer_range - kBindingSlack));
    }
  }
}

}  // namespace

vk::CommandList& VulkanRecorder::open() {
  if (!list_) {
    list_ = std::make_shared<vk::CommandList>(device_->command_list("arrays"));
    if (timing_) stamp(true);
  }
  return *list_;
}

/// All words that the argument touches, from the last aligned byte before it; with guard zones, the
/// adjacent words, too, so that writes to them are detected.
vk::Binding VulkanRecorder::bind(const Argument& a, std::uint32_t& first, Use& use) const {
  const VulkanMemory& memory = as_vulkan(a.memory);
  const std::uint64_t alignment =
      std::max<std::uint64_t>(device_->limits().storage_buffer_offset_alignment, a.element);
  const std::uint64_t zone = std::min<std::uint64_t>(memory.front(), 256);
  const std::uint64_t begin = memory.front() + a.offset;
  const std::uint64_t end = begin + std::max<std::uint64_t>(a.bytes, a.element);
  const std::uint64_t from = (begin - zone) / alignment * alignment;
  const std::uint64_t to = std::min({(end + zone + 3) / 4 * 4, memory.buffer().size(),
                                     from + device_->limits().max_storage_buffer_range});
  first = static_cast<std::uint32_t>((begin - from) / a.element);
  use = {&a.memory, {from, to, a.access != Access::read}};
  return {&memory.buffer(), from, to - from};
}

/// Records a barrier if memory used now was written, or memory written now was used.
void VulkanRecorder::order(std::span<const Use> uses) {
  const auto conflicts = [&](const Use& use) {
    const auto found = ranges_.find(&as_vulkan(*use.memory));
    if (found == ranges_.end()) return false;
    return std::ranges::any_of(found->second, [&](const Range& r) {
      return (r.written || use.range.written) && r.begin < use.range.end && use.range.begin < r.end;
    });
  };
  if (std::ranges::any_of(uses, conflicts)) {
    open().barrier();
    ++barriers_;
    for (auto& [memory, ranges] : ranges_) ranges.clear();
  }
  for (const Use& use : uses) {
    const auto [entry, fresh] = ranges_.try_emplace(&as_vulkan(*use.memory));
    if (fresh) used_.push_back(*use.memory);
    entry->second.push_back(use.range);
  }
}

void VulkanRecorder::recorded(std::uint64_t bytes) {
  const double rate = device_->info().software() ? kSoftwareRate : kDeviceRate;
  estimate_us_ += kLaunchMicroseconds + static_cast<double>(bytes) / rate;
  ++in_list_;
  if (estimate_us_ > kSubmissionMicroseconds || in_list_ >= kLaunchesOfSubmission) flush();
}

void VulkanRecorder::launch(const Launch& launch) {
  check(launch, device_->limits());
  const vk::Kernel kernel = kernels_.make(*launch.kernel).first;
  std::array<vk::Binding, 32> bindings;
  std::array<std::uint32_t, 32> push{};
  std::array<Use, 32> uses;
  const std::size_t count = launch.arguments.size();
  std::uint64_t bytes = 0;
  for (std::size_t k = 0; k < count; ++k) {
    bindings[k] = bind(launch.arguments[k], push[k], uses[k]);
    bytes += launch.arguments[k].bytes;
  }
  std::ranges::copy(launch.words, push.begin() + static_cast<std::ptrdiff_t>(count) + 1);
  const std::size_t words = count + 1 + launch.words.size();
  order(std::span(uses).first(count));
  open().dispatch(kernel, std::span(bindings).first(count),
                  std::as_bytes(std::span(push).first(words)),
                  vk::Groups{launch.groups.x, launch.groups.y, launch.groups.z});
  ++launches_;
  recorded(bytes);
}

void VulkanRecorder::copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
                          const std::shared_ptr<Memory>& to, std::uint64_t to_offset,
                          std::uint64_t bytes) {
  const VulkanMemory& source = as_vulkan(from);
  const VulkanMemory& target = as_vulkan(to);
  const std::uint64_t a = source.front() + from_offset, b = target.front() + to_offset;
  order(std::array{Use{&from, {a, a + bytes, false}}, Use{&to, {b, b + bytes, true}}});
  open().copy(source.buffer(), a, target.buffer(), b, bytes);
  recorded(2 * bytes);
}

void VulkanRecorder::fill(const std::shared_ptr<Memory>& to, std::uint64_t offset,
                          std::uint64_t bytes, std::uint32_t word) {
  const VulkanMemory& target = as_vulkan(to);
  const std::uint64_t begin = target.front() + offset;
  order(std::array{Use{&to, {begin, begin + bytes, true}}});
  open().fill(target.buffer(), begin, bytes, word);
  recorded(bytes);
}

void VulkanRecorder::flush() {
  if (!list_) return;
  if (timing_) stamp(false);
  const vk::Submission submission = device_->submit(*list_);
  for (const auto& memory : used_) as_vulkan(memory).last = submission;
  for (Timing& timing : unsettled_) {
    if (timing.submitted) continue;
    timing.submission = submission;
    timing.submitted = true;
  }
  ranges_.clear();
  used_.clear();
  list_ = nullptr;
  estimate_us_ = 0;
  in_list_ = stamps_ = 0;
  in_flight_.push_back(submission);
  if (in_flight_.size() > kSubmissionsInFlight) {
    in_flight_.front().wait();
    in_flight_.pop_front();
  }
  settle();
}

void VulkanRecorder::finish() {
  flush();
  for (; !in_flight_.empty(); in_flight_.pop_front()) in_flight_.front().wait();
  settle();
}

void VulkanRecorder::stamp(bool begin) {
  if (!device_->features().timestamps) return;
  list_->write_timestamp(begin ? "begin" : "end");
  if (begin) {
    spans_.push_back({list_, stamps_, stamps_});
  } else {
    spans_.back().to = stamps_;
  }
  ++stamps_;
}

bool VulkanRecorder::begin_timing() {
  if (timing_) return false;
  spans_.clear();
  if (!device_->features().timestamps) {
    finish();
    timing_began_ = std::chrono::steady_clock::now();
  }
  timing_ = true;
  if (list_) stamp(true);
  return true;
}

void VulkanRecorder::end_timing(std::function<void(std::optional<double>)> done) {
  if (list_) stamp(false);
  timing_ = false;
  std::optional<double> wall_us;
  if (!device_->features().timestamps) {
    finish();
    const auto passed = std::chrono::steady_clock::now() - timing_began_;
    wall_us = std::chrono::duration<double, std::micro>(passed).count();
  }
  tell_when_done(std::exchange(spans_, {}), wall_us, std::move(done));
}

void VulkanRecorder::when_done(std::function<void(std::optional<double>)> done) {
  tell_when_done({}, {}, std::move(done));
}

void VulkanRecorder::tell_when_done(std::vector<Span> spans, std::optional<double> wall_us,
                                    std::function<void(std::optional<double>)> done) {
  const bool open_list = list_ != nullptr;
  Timing timing{std::move(spans), wall_us, std::move(done), {}, !open_list};
  if (!open_list && !in_flight_.empty()) timing.submission = in_flight_.back();
  unsettled_.push_back(std::move(timing));
  settle();
}

std::optional<double> VulkanRecorder::time_of(const Timing& timing) {
  std::optional<double> sum = timing.wall_us;
  for (const Span& span : timing.spans) {
    const std::vector<vk::Timestamp> stamps = span.list->timestamps();
    if (span.to >= stamps.size()) continue;
    sum = sum.value_or(0) + stamps[span.to].microseconds - stamps[span.from].microseconds;
  }
  return sum;
}

void VulkanRecorder::settle() {
  const auto settled = [](const Timing& timing) {
    return timing.submitted && timing.submission.done();
  };
  while (!unsettled_.empty() && settled(unsettled_.front())) {
    const Timing timing = std::move(unsettled_.front());
    unsettled_.pop_front();
    timing.done(time_of(timing));
  }
}

}  // namespace topograd::ops
