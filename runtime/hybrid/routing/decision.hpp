// Input and output of a scheduler, and the choice between the CPU and one device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "../../../ir/error.hpp"
#include "../../../ir/hash.hpp"
#include "options.hpp"

namespace topograd::runtime::hybrid {

using ir::Hash128;

/// Memory access pattern of a task.
enum class MemoryPattern { streaming, gather, scatter, reduction };
TG_ENUM_NAMES(MemoryPattern)

/// Features of one item of a task, for the first guess about kernels that have never run. Work
/// (runtime/hybrid/routing/work.hpp) computes them from the whole task.
struct Features {
  double operations = 1;  ///< arithmetic operations per item
  double bytes = 8;       ///< bytes of different elements read and written per item
  /// 1 over the length of an item's chain of dependent operations, in (0, 1]: 1 for a map, 1 over
  /// log2(n) for the tree of a sum.
  double parallelism = 1;
  double reuse = 1;  ///< number of reads of an element, >= 1
  MemoryPattern pattern = MemoryPattern::streaming;
  /// Equal for tasks of one operation that do similar work, such as those of one solver method.
  std::uint64_t family = 0;
};

/// The CPU is target 0; devices follow in the order in which they were added.
inline constexpr std::size_t kCpu = 0;
/// Mask of all targets.
inline constexpr std::uint64_t kEveryTarget = ~std::uint64_t{0};

/// The origin of a forced choice.
enum class Override { none, cpu, device };

/// A task as the scheduler sees it.
struct TaskShape {
  Hash128 kernel;              ///< each kernel has its own history
  std::string_view operation;  ///< name for thresholds and reports: "map", "solve"
  std::uint64_t size = 0;      ///< items
  double cost = 0;             ///< work of all items, in items of cost 1; 0: the same as `size`
  std::optional<std::uint64_t> minimum;  ///< fewer items stay on the CPU, for this task
  std::uint64_t bytes_in = 0;            ///< input bytes of a device
  std::uint64_t bytes_out = 0;           ///< output bytes of a device
  std::uint64_t bytes_held = 0;          ///< memory on the device; 0 = bytes_in + bytes_out
  /// Part of bytes_in that is already on each target; missing entries are 0.
  std::span<const std::uint64_t> resident;
  /// Part of bytes_in that the CPU would have to read back first, and its target.
  std::uint64_t bytes_away = 0;
  std::size_t away_on = kCpu;
  std::uint64_t targets = kEveryTarget;  ///< targets that can run it, one bit each
  /// True for work that is queued after other work and waited for when its result is read, such as
  /// array operations: transfers have a separate account, and the submission is a part of the
  /// kernel's time.
  bool queued = false;
  /// Items from which a device is expected to pay, until this operation has been measured.
  std::uint64_t first_threshold = 0;
  double most_cpu_us = 0;  ///< estimate of the longest CPU time; 0 = not known
  Features features;
  Override where = Override::none;
  bool admit_software = false;  ///< for this task
  double deadline_us = 0;       ///< 0 = none; with a deadline nothing is explored
  bool teaches = true;          ///< false: nothing is learned from the time of this run

  /// Items of cost 1 with as much work: histories and thresholds go by these.
  std::uint64_t work() const {
    return cost > 0 ? static_cast<std::uint64_t>(std::max(1LL, std::llround(cost))) : size;
  }
  /// Bytes of memory that it needs on a device.
  std::uint64_t memory() const { return bytes_held != 0 ? bytes_held : bytes_in + bytes_out; }
  std::uint64_t resident_on(std::size_t target) const {
    return target < resident.size() ? resident[target] : 0;
  }
  /// Bytes that have to be uploaded to a target first.
  std::uint64_t upload_to(std::size_t target) const {
    return bytes_in - std::min(bytes_in, resident_on(target));
  }
  /// The shape of this many of its items.
  TaskShape part(std::uint64_t items) const {
    const double share = static_cast<double>(items) / static_cast<double>(size);
    const auto scaled = [share](std::uint64_t bytes) {
      return static_cast<std::uint64_t>(share * static_cast<double>(bytes));
    };
    TaskShape some = *this;
    some.size = items;
    some.cost = share * cost;
    some.bytes_in = scaled(bytes_in);
    some.bytes_out = scaled(bytes_out);
    some.bytes_held = scaled(bytes_held);
    return some;
  }
};

/// Reason for the choice of a target.
enum class Reason {
  forced,           ///< by the task or the options
  below_minimum,    ///< fewer items than the minimum batch
  no_device,        ///< none is registered, available and admitted
  breaker_open,     ///< too many failures; back-off
  unsupported,      ///< no device can run this
  memory_limit,     ///< more bytes than the limit
  out_of_memory,    ///< tasks of this many bytes ran out of memory there
  success_rate,     ///< too many of its last tasks failed
  slower,           ///< measured: the device's speed-up is too low
  faster,           ///< measured: the device is faster
  below_threshold,  ///< never measured here; kernels of this operation and size were slower there
  unmeasured,       ///< never measured on both sides
  guessed,          ///< from other kernels with similar features
  explored,         ///< another target, to keep its measurements up to date
  together,         ///< placed as one with the operations before and after it
};
TG_ENUM_NAMES(Reason)

/// Parts of a task's time on one target, in µs.
struct Terms {
  double queue = 0;  ///< waiting for earlier tasks
  double upload = 0;
  double submit = 0;
  double kernel = 0;
  double read_back = 0;

  double total() const { return queue + upload + submit + kernel + read_back; }
  /// Time without the wait, which says nothing about the task.
  double work() const { return upload + submit + kernel + read_back; }
};

/// Prediction for a task on one target.
struct Prediction {
  Terms terms;
  double confidence = 0;  ///< in [0, 1)
  bool measured = false;  ///< this kernel has run there, near this size
  bool guessed = false;   ///< from features

  bool known() const { return measured || guessed; }
};

struct Decision {
  std::size_t target = kCpu;
  std::size_t device = kCpu;  ///< the device compared with the CPU; kCpu = none
  Reason reason = Reason::no_device;
  double confidence = 0;  ///< of the comparison: the smaller one of the two sides
  double speed_up = 0;    ///< CPU time over device time; 0 = not known
  double needed = 0;      ///< required speed-up of the device; 0 = not asked
  Prediction on_cpu, on_device;
  double reserved_us = 0;  ///< load added to the target until the task is recorded or cancelled
  double instead_us = 0;   ///< explored: predicted time of the target that it would have had
};

/// Result of a task.
struct Outcome {
  bool success = true;
  ErrorCode error = ErrorCode::Internal;  ///< valid unless success
  Terms times;  ///< measured; parts that a backend cannot separate are in `kernel`
  std::uint64_t bytes_up = 0, bytes_down = 0;  ///< moved for it
  std::uint64_t cache_hits = 0;                ///< kernels and arrays found in caches
  bool cold = false;     ///< something was compiled, opened or allocated: not used for learning
  bool untimed = false;  ///< queued and not waited for: its time is unknown
  bool settled = false;  ///< medians of repeated runs: the first sample is used too
};

/// A number without a default, which must be given.
struct Stated {
  double value;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Stated(T number) : value(static_cast<double>(number)) {}  // NOLINT: as numbers are
  constexpr operator double() const { return value; }                 // NOLINT
};

/// Totals of a task.
struct Work {
  Stated operations;     ///< arithmetic; comparisons count, copies do not
  Stated bytes_read;     ///< of different elements
  Stated bytes_written;  ///< of different elements
  double reads = 0;      ///< bytes read with repetitions; 0: bytes_read
  double steps = 1;      ///< dependent steps, in operations of an item
  MemoryPattern pattern = MemoryPattern::streaming;

  /// Features per item of `items`. An item has at least one operation.
  Features per_item(std::uint64_t items) const {
    const double n = static_cast<double>(std::max<std::uint64_t>(items, 1));
    return {.operations = std::max(1.0, operations / n),
            .bytes = (bytes_read + bytes_written) / n,
            .parallelism = 1 / std::max(1.0, steps),
            .reuse = bytes_read > 0 ? std::max(1.0, reads / bytes_read) : 1,
            .pattern = pattern};
  }
};

/// Steps of a tree that combines this many numbers, and the first read of each.
inline double tree_steps(double count) { return 1 + std::ceil(std::log2(std::max(count, 1.0))); }

/// Assumed cost factor of a side without measurements, when a trial of it is considered.
inline constexpr double kUnknownFactor = 10;

/// The side that runs tasks; `none` if it is not known, or left open.
enum class Side : std::int8_t { none, cpu, device };

/// The side to which the task, or else the options, force it.
Side forced_side(const TaskShape& task, const HybridOptions& options);

/// Facts about tasks that run as one.
struct SideFacts {
  Prediction on_cpu, on_device;
  Side last = Side::none;        ///< where they ran last time that both sides were measured
  bool below_threshold = false;  ///< each has fewer items than the threshold of its operation
  double most_cpu_us = 0;        ///< upper bound of the CPU time; 0 = not known, or do not try it
};

struct SideChoice {
  Side side = Side::cpu;
  Reason reason = Reason::unmeasured;
  double speed_up = 0;    ///< CPU time over device time; 0 = not known
  double needed = 0;      ///< required speed-up of the device; 0 = not asked
  double confidence = 0;  ///< of the comparison: the smaller one of the two sides
};

/// Compares measurements if both sides have them, else guesses, else sizes with thresholds.
///
/// A device that ran them last keeps them until its speed-up is below `speed_up_sure` / `margin`.
SideChoice choose_side(const SideFacts& facts, const HybridOptions& options);

}  // namespace topograd::runtime::hybrid
