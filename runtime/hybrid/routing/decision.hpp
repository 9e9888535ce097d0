// What a scheduler is asked, and what it answers.
#pragma once

#include "../../../ir/error.hpp"
#include "../../../ir/hash.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace topograd::runtime::hybrid {

using ir::Hash128;

/// How a task touches memory.
enum class MemoryPattern { streaming, gather, scatter, reduction };
/// As in the enum.
std::string_view name(MemoryPattern pattern);

/// What one item of a task is like: the first guess for kernels that have never run. Work
/// (runtime/hybrid/routing/work.hpp) makes them from what a task does as a whole.
struct Features {
  double operations = 1;  ///< arithmetic, an item
  double bytes = 8;       ///< of different elements that are read and written, an item
  /// 1 over the operations of an item that wait for each other, in (0, 1]: 1 for a map, 1 over
  /// log2(n) for the tree of a sum.
  double parallelism = 1;
  double reuse = 1;  ///< times that an element is read, >= 1
  MemoryPattern pattern = MemoryPattern::streaming;
  /// Of tasks of one operation, those that do like work for each of these: a solver's method.
  std::uint64_t family = 0;
};

/// The CPU is target 0, devices follow in the order in which they were added.
inline constexpr std::size_t kCpu = 0;
/// Of a mask of targets: all of them.
inline constexpr std::uint64_t kEveryTarget = ~std::uint64_t{0};

/// Who decides where a task runs.
enum class Override { none, cpu, device };

/// A task as the scheduler sees it.
struct TaskShape {
  Hash128 kernel;                        ///< of what runs: another kernel, another history
  std::string_view operation;            ///< word for thresholds and reports: "map", "solve"
  std::uint64_t size = 0;                ///< items
  std::optional<std::uint64_t> minimum;  ///< items below which it stays on the CPU, for this task
  std::uint64_t bytes_in = 0;            ///< that a device needs
  std::uint64_t bytes_out = 0;           ///< that come back
  std::uint64_t bytes_held = 0;          ///< of memory on the device; 0 = bytes_in + bytes_out
  /// Of bytes_in, what is there already, by target; targets beyond its end hold nothing.
  std::span<const std::uint64_t> resident;
  /// Of bytes_in, what the CPU would have to read back first, and from where.
  std::uint64_t bytes_away = 0;
  std::size_t away_on = kCpu;
  std::uint64_t targets = kEveryTarget;  ///< that can run it at all, one bit each
  /// Work that is queued behind other work and waited for when something is read, as operations of
  /// arrays are: what it costs to go there and back is an account of its own, and its submission
  /// is a part of its kernel's time.
  bool queued = false;
  /// Items from which a device is expected to pay, until this operation has been measured.
  std::uint64_t first_threshold = 0;
  double most_cpu_us = 0;  ///< about what the CPU takes at most; 0 = not known
  Features features;
  Override where = Override::none;
  bool admit_software = false;  ///< for this task
  double deadline_us = 0;       ///< 0 = none; with one there is no exploring
};

/// Why a target was chosen.
enum class Reason {
  forced,           ///< by the task or the options
  below_minimum,    ///< fewer items than the minimum batch
  no_device,        ///< none is registered, there, and admitted
  breaker_open,     ///< it failed, and is left alone for a while
  unsupported,      ///< no device can run this
  memory_limit,     ///< more bytes than the limit
  out_of_memory,    ///< tasks of this many bytes ran out of memory there
  success_rate,     ///< too many of its last tasks failed
  slower,           ///< measured: the device's speed-up is too low
  faster,           ///< measured: the device is faster
  below_threshold,  ///< never measured here; kernels of this operation and size were slower there
  unmeasured,       ///< never measured on both sides
  guessed,          ///< from other kernels with like features
  explored,         ///< the other side, to keep knowing it
  together,         ///< with the operations before and after it, which were placed as one
};
/// As in the enum.
std::string_view name(Reason reason);
inline constexpr int kReasons = static_cast<int>(Reason::together) + 1;

/// Parts of a task's time on one target, in µs.
struct Terms {
  double queue = 0;  ///< waiting for tasks before it
  double upload = 0;
  double submit = 0;
  double kernel = 0;
  double read_back = 0;

  double total() const { return queue + upload + submit + kernel + read_back; }
  /// Without the wait, which says nothing about the task.
  double work() const { return upload + submit + kernel + read_back; }
};

/// What is expected of a task on one target.
struct Prediction {
  Terms terms;
  double confidence = 0;  ///< in [0, 1)
  bool measured = false;  ///< this kernel has run there, near this size
  bool guessed = false;   ///< from features
};

struct Decision {
  std::size_t target = kCpu;
  std::size_t device = kCpu;  ///< the device that was weighed against the CPU; kCpu = none
  Reason reason = Reason::no_device;
  double confidence = 0;  ///< of the comparison: the lesser of the two sides'
  double speed_up = 0;    ///< CPU time over device time; 0 = not known
  double needed = 0;      ///< the speed-up that was asked of the device; 0 = it was not
  Prediction on_cpu, on_device;
  double reserved_us = 0;  ///< load of the target until the task is recorded or cancelled
};

/// How a task ended.
struct Outcome {
  bool success = true;
  ErrorCode error = ErrorCode::Internal;  ///< unless success
  Terms times;  ///< measured; what a backend cannot tell apart is in `kernel`
  std::uint64_t bytes_up = 0, bytes_down = 0;  ///< moved for it
  std::uint64_t cache_hits = 0;                ///< kernels and arrays that were there already
  bool cold = false;     ///< something was compiled, opened or allocated: teaches nothing
  bool untimed = false;  ///< queued and not waited for: its time is not known
  bool settled = false;  ///< medians of repeated runs: the first sample counts like others
};

}  // namespace topograd::runtime::hybrid
