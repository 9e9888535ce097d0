// Times of kernels, of passes on the CPU, and of the host's own work, within the steps of a solve.
#pragma once

#include "../ir/enum_table.hpp"
#include "../ir/topology/topology.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd::runtime {

/// What a row of a profile is.
enum class TimedWork {
  device,  ///< a kernel or copy on a device, by its timestamps
  cpu,     ///< a pass of the CPU engine, or of a linear solver on the host
  host,    ///< waiting for a device and talking to its driver, while no kernel runs
  rest     ///< everything else that a step does
};
TG_ENUM_NAMES(TimedWork)

/// One row of a profile: a kernel or pass, over all its calls.
struct KernelTime {
  std::string name;      ///< of a kernel as `topograd dump` lists it: "springs_gradient"
  std::string topology;  ///< hash, 32 hexadecimal digits; empty: it belongs to none
  TimedWork work = TimedWork::device;
  std::uint64_t calls = 0;
  double us = 0;            ///< all calls together, without passes inside of them
  double longest_us = 0;    ///< the longest call
  std::uint64_t bytes = 0;  ///< of all calls, by the plan: columns and results; 0: unknown
  /// Of all calls, by a measurement of the plan, or else bytes at the rate of a copy; 0: unknown.
  double predicted_us = 0;
};

/// A bar of a trace.
struct ProfileEvent {
  std::uint32_t row = 0;  ///< of Profile::rows()
  double begin_us = 0;    ///< since the profile began
  double us = 0;
};

/// Collects the times of the thread that uses it, while a Watch lives. Their sum is the time of the
/// watches: each moment belongs to the innermost pass, or to the kernel that a device runs then.
///
/// Times of a device come from its timestamps, which are brought to the host's clock by bounds: a
/// list begins after it was submitted and ends before the host knows.
class Profile {
 public:
  using Clock = std::chrono::steady_clock;
  /// Events that are kept; later ones are only counted.
  static constexpr std::size_t kMostEvents = std::size_t{1} << 17;

  Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// The one that this thread uses: command lists that it records now take timestamps. Null: none.
  static Profile* here() { return here_; }
  /// The same while a Watch lives.
  static Profile* watching() { return watching_; }

  /// This thread uses the profile, or none (null), while it lives; then again what it used before.
  class Use {
   public:
    explicit Use(Profile* profile);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Profile *before_, *watching_before_;
  };

  /// The work of a thread with a profile is timed while it lives. One at a time, but several may
  /// follow each other.
  class Watch {
   public:
    Watch();
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Profile* profile_;  // null: none, or an outer watch times this
  };

  /// Different for each profile of the process.
  std::uint64_t id() const { return id_; }
  const std::vector<KernelTime>& rows() const { return rows_; }
  const std::vector<ProfileEvent>& events() const { return events_; }
  std::uint64_t events_left_out() const { return events_left_out_; }
  Clock::time_point began() const { return began_; }
  /// Microseconds of all watches.
  double watched_us() const { return watched_us_; }
  /// Why kernels of a device have no times; empty: they have, or there were none.
  const std::string& note() const { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

  /// The row of such work, made on first use.
  ///
  ///   what    a literal
  ///   prefix  label of residuals; the row's name is PREFIX_WHAT, or WHAT if it is empty
  std::uint32_t row(TimedWork work, const char* what, std::string_view prefix = {},
                    const ir::Topology* topology = nullptr);
  /// The row of a kernel on a device.
  std::uint32_t kernel_row(std::string_view name, std::string_view topology);

  // Passes of this thread, which nest.
  void enter(std::uint32_t row, std::uint64_t bytes);
  void leave();

  /// One command of a submission.
  struct Stamped {
    std::uint32_t row = 0;
    std::uint64_t bytes = 0;
    std::uint64_t ticks = 0;  ///< at its end
  };
  /// A clock of a device.
  struct Ticks {
    const void* device = nullptr;
    double ns = 1;           ///< of a tick
    std::uint64_t mask = 0;  ///< bits of a timestamp that count
  };
  /// A list has run: its commands in order, the first one after `begin`.
  void ran(const Ticks& clock, Clock::time_point submitted, std::uint64_t begin,
           std::span<const Stamped> commands);
  /// Called until it returns true: adds the times of a submission, once it has finished or, with
  /// `wait`, after waiting for it.
  using Pending = std::function<bool(bool wait)>;
  /// Kernels may run from now on: before a submission with timestamps. Returns the time.
  Clock::time_point will_submit();
  /// It was submitted.
  void submitted(Pending pending) { pending_.push_back(std::move(pending)); }
  /// Adds times of submissions that have finished, of all of them with `wait`.
  void settle(bool wait);

 private:
  inline static thread_local Profile *here_ = nullptr, *watching_ = nullptr;

  struct Open {
    std::uint32_t row = 0;
    Clock::time_point begin;
    std::int64_t inside_ns = 0;  ///< of passes inside
  };
  struct Key {
    TimedWork work;
    const char* what;
    const ir::Topology* topology;
    std::string prefix;
  };
  struct Interval {
    std::int64_t begin = 0, end = 0;  ///< ns since the profile began
  };
  struct Segment : Interval {
    std::uint32_t row = 0;
  };
  struct DeviceClock {
    bool known = false;
    std::uint64_t last = 0;          ///< ticks as read
    std::int64_t ns = 0;             ///< of `last`, without wrapping
    std::int64_t low = 0, high = 0;  ///< bounds of what turns its ns into the profile's
  };

  void begin_watch();
  void end_watch();
  std::int64_t since_began(Clock::time_point time) const;
  /// The time since the last call belongs to the innermost pass.
  void attribute(Clock::time_point now);
  void add_event(std::uint32_t row, std::int64_t begin, std::int64_t end);
  /// Takes the time in which a device ran a kernel from what the host did meanwhile.
  void take_overlap();
  std::int64_t unwrapped(DeviceClock& device, const Ticks& clock, std::uint64_t ticks);

  const std::uint64_t id_;
  const Clock::time_point began_;
  Clock::time_point watch_began_, last_;
  double watched_us_ = 0;
  std::vector<KernelTime> rows_;
  std::vector<Key> keys_;  // of rows of the host; parallel to rows_
  std::map<std::string, std::uint32_t, std::less<>> kernels_;  // rows of the device
  std::vector<Open> open_;
  std::vector<ProfileEvent> events_;
  std::uint64_t events_left_out_ = 0;
  std::deque<Pending> pending_;
  bool device_may_run_ = false;
  std::vector<Segment> host_;     // while it may
  std::vector<Interval> device_;  // in which it ran
  std::map<const void*, DeviceClock> clocks_;
  std::string note_;
  bool settling_ = false;
};

/// One pass of this thread, if it is watched. Cost without: one load of a thread's variable.
class TimedPass {
 public:
  TimedPass(TimedWork work, const char* what, std::string_view prefix = {},
            const ir::Topology* topology = nullptr)
      : profile_(Profile::watching()) {
    if (profile_ != nullptr) profile_->enter(profile_->row(work, what, prefix, topology), 0);
  }
  /// With the bytes that the pass moves, which are counted only if it is watched.
  template <class Bytes>
  TimedPass(const char* what, std::string_view prefix, const ir::Topology* topology,
            const Bytes& bytes)
      : profile_(Profile::watching()) {
    if (profile_ != nullptr)
      profile_->enter(profile_->row(TimedWork::cpu, what, prefix, topology), bytes());
  }
  ~TimedPass() {
    if (profile_ != nullptr) profile_->leave();
  }
  TimedPass(const TimedPass&) = delete;
  TimedPass& operator=(const TimedPass&) = delete;

 private:
  Profile* profile_;
};

}  // namespace topograd::runtime
