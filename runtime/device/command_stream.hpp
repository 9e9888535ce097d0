// Commands in the order of calls: recorded with barriers where needed, submitted now and then,
// timed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device.hpp"

namespace topograd::runtime::vulkan {

/// The rule of barriers in a list: a command waits for those since the last barrier that wrote what
/// it uses, or used what it writes.
class Hazards {
 public:
  /// The numbers [begin, end) of a resource, such as the bytes of a buffer.
  struct Use {
    const void* resource = nullptr;  ///< only an address
    std::uint64_t begin = 0, end = 0;
    bool written = false;
  };

  explicit Hazards(CommandList& list) : list_(list) {}
  /// Records a barrier if a command with these uses needs one. Returns true if it did.
  bool order(std::span<const Use> uses);
  bool order(const Use& use) { return order(std::span(&use, 1)); }

 private:
  CommandList& list_;
  std::unordered_map<const void*, std::vector<Use>> uses_;  // since the last barrier
};

/// Records between two timestamps.
template <class F>
void stamped(CommandList& list, F&& record) {
  list.write_timestamp("begin");
  record();
  list.write_timestamp("end");
}

/// Microseconds between two timestamps of a list's latest submission; waits for it. Nothing on
/// devices without timestamps.
std::optional<double> microseconds_between(const CommandList& list, std::size_t from = 0,
                                           std::size_t to = 1);

/// A buffer that a stream uses, and keeps alive while it does. Belongs to a shared pointer.
class StreamBuffer : public std::enable_shared_from_this<StreamBuffer> {
 public:
  explicit StreamBuffer(Buffer made) : buffer(std::move(made)) {}

  const Buffer buffer;
  Submission last;        ///< the last one that uses it
  bool recorded = false;  ///< the open list uses it
};

/// A stream of commands that run as if one after the other. It records to an open list, which is
/// submitted when it has some milliseconds of work, far below the limits of watchdogs, or by
/// flush(). Lists that are recorded once and submitted again are a Recorder's. Not thread-safe.
class CommandStream {
 public:
  using Done = std::function<void(std::optional<double> microseconds)>;
  struct Argument {
    StreamBuffer* buffer = nullptr;
    std::uint64_t offset = 0, size = 0;  ///< as in Binding
    bool written = false;
  };

  ///   name  of its lists
  CommandStream(std::shared_ptr<Device> device, std::string name)
      : device_(std::move(device)), name_(std::move(name)) {}

  void dispatch(const Kernel& kernel, std::span<const Argument> arguments,
                std::span<const std::byte> push, Groups groups);
  void copy(StreamBuffer& from, std::uint64_t from_offset, StreamBuffer& to,
            std::uint64_t to_offset, std::uint64_t bytes);
  void fill(StreamBuffer& to, std::uint64_t offset, std::uint64_t bytes, std::uint32_t word);

  /// Submits the open list; waits only if many submissions are pending.
  void flush();
  /// Reports the times of finished submissions; does not wait.
  void settle();

  /// Times commands from now on; false if a timing is in progress. Without timestamps, beginning
  /// and end wait for the device, so that the host's clock sees its time.
  bool begin_timing();
  /// `done` is called with the device's time, by settle().
  void end_timing(Done done);
  /// `done` is called, without a time, when the work recorded so far has finished.
  void when_done(Done done) { tell_when_done({}, {}, std::move(done)); }

  std::uint64_t dispatches() const { return dispatches_; }
  std::uint64_t barriers() const { return barriers_; }

 private:
  /// A list while it is recorded, and its hazards.
  struct Open {
    explicit Open(CommandList made) : list(std::move(made)) {}
    CommandList list;
    Hazards hazards{list};
    double estimate_us = 0;
    std::size_t commands = 0, stamps = 0;
    std::vector<std::shared_ptr<StreamBuffer>> buffers;
  };
  /// The interval between two timestamps of a list.
  struct Span {
    std::shared_ptr<Open> of;
    std::size_t from = 0, to = 0;
  };
  struct Timing {
    std::vector<Span> spans;
    std::optional<double> wall_us;  ///< by the host's clock, without timestamps
    Done done;
    Submission submission;  ///< of the last span
    bool submitted = false;
  };

  /// Begins a command, whose uses follow.
  void open();
  void use(StreamBuffer& buffer, std::uint64_t begin, std::uint64_t bytes, bool written);
  /// The open list, after a barrier if the command needs one.
  CommandList& ordered();
  void recorded();
  /// Submits what is recorded and waits for all submissions.
  void finish();
  void stamp(bool begin);
  void tell_when_done(std::vector<Span> spans, std::optional<double> wall_us, Done done);
  static std::optional<double> time_of(const Timing& timing);

  const std::shared_ptr<Device> device_;
  const std::string name_;
  std::shared_ptr<Open> open_;
  std::vector<Hazards::Use> uses_;  // of the latest command
  std::vector<Binding> bindings_;
  std::deque<Submission> in_flight_;
  std::uint64_t dispatches_ = 0, barriers_ = 0;
  bool timing_ = false;
  std::chrono::steady_clock::time_point timing_began_;  // without timestamps
  std::vector<Span> spans_;
  std::deque<Timing> unsettled_;  // in the order of submission
};

}  // namespace topograd::runtime::vulkan
