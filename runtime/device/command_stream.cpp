// Barriers, submissions and times of streams of commands.
#include "command_stream.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {
namespace {

// A submission costs some microseconds. This is short enough for the device to begin early, and far
// below the limits of watchdogs.
constexpr double kSubmissionMicroseconds = 5'000;
constexpr std::size_t kCommandsOfSubmission = 48;
// Maximum number of pending submissions; each keeps its resources alive.
constexpr std::size_t kSubmissionsInFlight = 8;
// Bytes per microsecond that even slow devices move, and the overhead of a command.
constexpr double kDeviceRate = 100'000, kSoftwareRate = 2'000, kCommandMicroseconds = 5;

}  // namespace

bool Hazards::order(std::span<const Use> uses) {
  const auto conflicts = [&](const Use& use) {
    const auto found = uses_.find(use.resource);
    if (found == uses_.end()) return false;
    return std::ranges::any_of(found->second, [&](const Use& before) {
      return (before.written || use.written) && before.begin < use.end && use.begin < before.end;
    });
  };
  const bool barrier = std::ranges::any_of(uses, conflicts);
  if (barrier) {
    list_.barrier();
    for (auto& [resource, before] : uses_) before.clear();
  }
  for (const Use& use : uses) uses_[use.resource].push_back(use);
  return barrier;
}

std::optional<double> microseconds_between(const CommandList& list, std::size_t from,
                                           std::size_t to) {
  const std::vector<Timestamp> stamps = list.timestamps();
  if (to >= stamps.size()) return std::nullopt;
  return stamps[to].microseconds - stamps[from].microseconds;
}

void CommandStream::open() {
  uses_.clear();
  if (open_) return;
  open_ = std::make_shared<Open>(device_->command_list(name_));
  if (timing_) stamp(true);
}

void CommandStream::use(StreamBuffer& buffer, std::uint64_t begin, std::uint64_t bytes,
                        bool written) {
  uses_.push_back({&buffer, begin, begin + bytes, written});
  if (std::exchange(buffer.recorded, true)) return;
  open_->buffers.push_back(buffer.shared_from_this());
}

CommandList& CommandStream::ordered() {
  if (open_->hazards.order(uses_)) ++barriers_;
  return open_->list;
}

void CommandStream::recorded() {
  double bytes = 0;
  for (const Hazards::Use& use : uses_) bytes += static_cast<double>(use.end - use.begin);
  const double rate = device_->info().software() ? kSoftwareRate : kDeviceRate;
  open_->estimate_us += kCommandMicroseconds + bytes / rate;
  ++open_->commands;
  if (open_->estimate_us > kSubmissionMicroseconds || open_->commands >= kCommandsOfSubmission)
    flush();
}

void CommandStream::dispatch(const Kernel& kernel, std::span<const Argument> arguments,
                             std::span<const std::byte> push, Groups groups) {
  open();
  bindings_.clear();
  for (const Argument& a : arguments) {
    bindings_.push_back({&a.buffer->buffer, a.offset, a.size});
    use(*a.buffer, a.offset, a.size, a.written);
  }
  ordered().dispatch(kernel, bindings_, push, groups);
  ++dispatches_;
  recorded();
}

void CommandStream::copy(StreamBuffer& from, std::uint64_t from_offset, StreamBuffer& to,
                         std::uint64_t to_offset, std::uint64_t bytes) {
  open();
  use(from, from_offset, bytes, false);
  use(to, to_offset, bytes, true);
  ordered().copy(from.buffer, from_offset, to.buffer, to_offset, bytes);
  recorded();
}

void CommandStream::fill(StreamBuffer& to, std::uint64_t offset, std::uint64_t bytes,
                         std::uint32_t word) {
  open();
  use(to, offset, bytes, true);
  ordered().fill(to.buffer, offset, bytes, word);
  recorded();
}

void CommandStream::flush() {
  if (!open_) return;
  if (timing_) stamp(false);
  const Submission submission = device_->submit(open_->list);
  for (const auto& buffer : open_->buffers) {
    buffer->last = submission;
    buffer->recorded = false;
  }
  open_->buffers.clear();
  open_ = nullptr;
  for (Timing& timing : unsettled_) {
    if (timing.submitted) continue;
    timing.submission = submission;
    timing.submitted = true;
  }
  in_flight_.push_back(submission);
  if (in_flight_.size() > kSubmissionsInFlight) {
    in_flight_.front().wait();
    in_flight_.pop_front();
  }
  settle();
}

void CommandStream::finish() {
  flush();
  for (; !in_flight_.empty(); in_flight_.pop_front()) in_flight_.front().wait();
  settle();
}

void CommandStream::stamp(bool begin) {
  if (!device_->features().timestamps) return;
  open_->list.write_timestamp(begin ? "begin" : "end");
  if (begin) {
    spans_.push_back({open_, open_->stamps, open_->stamps});
  } else {
    spans_.back().to = open_->stamps;
  }
  ++open_->stamps;
}

bool CommandStream::begin_timing() {
  if (timing_) return false;
  spans_.clear();
  if (!device_->features().timestamps) {
    finish();
    timing_began_ = std::chrono::steady_clock::now();
  }
  timing_ = true;
  if (open_) stamp(true);
  return true;
}

void CommandStream::end_timing(Done done) {
  if (open_) stamp(false);
  timing_ = false;
  std::optional<double> wall_us;
  if (!device_->features().timestamps) {
    finish();
    const auto passed = std::chrono::steady_clock::now() - timing_began_;
    wall_us = std::chrono::duration<double, std::micro>(passed).count();
  }
  tell_when_done(std::exchange(spans_, {}), wall_us, std::move(done));
}

void CommandStream::tell_when_done(std::vector<Span> spans, std::optional<double> wall_us,
                                   Done done) {
  Timing timing{std::move(spans), wall_us, std::move(done), {}, !open_};
  if (!open_ && !in_flight_.empty()) timing.submission = in_flight_.back();
  unsettled_.push_back(std::move(timing));
  settle();
}

std::optional<double> CommandStream::time_of(const Timing& timing) {
  std::optional<double> sum = timing.wall_us;
  for (const Span& span : timing.spans) {
    if (const auto us = microseconds_between(span.of->list, span.from, span.to))
      sum = sum.value_or(0) + *us;
  }
  return sum;
}

void CommandStream::settle() {
  const auto settled = [](const Timing& timing) {
    return timing.submitted && timing.submission.done();
  };
  while (!unsettled_.empty() && settled(unsettled_.front())) {
    const Timing timing = std::move(unsettled_.front());
    unsettled_.pop_front();
    timing.done(time_of(timing));
  }
}

}  // namespace topograd::runtime::vulkan
