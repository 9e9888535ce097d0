// The interface that every kind of device offers to storages and operations.
#pragma once

#include "../../ir/batch/batch.hpp"
#include "compute_kernel.hpp"
#include "device.hpp"
#include "type.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace topograd::ops {

/// One allocation of a backend; returns to its pool when it has no references and no queued work
/// uses it. Contents are undefined at first.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes) {}
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  /// Address for the host's access without a copy, after OpBackend::wait(); else null.
  virtual std::byte* host() const = 0;

 private:
  std::uint64_t bytes_;
};

/// A range of memory at one binding of a kernel.
///
/// A range may begin at any element: the binding starts at the last aligned byte before it, and the
/// kernel gets the number of elements in between (ComputeKernel). Memory that is written may be
/// bound only once.
struct Argument {
  std::shared_ptr<Memory> memory;
  std::uint64_t offset = 0;   ///< bytes, a multiple of `element`
  std::uint64_t bytes = 0;    ///< at most OpBackend::limits().binding_bytes
  std::uint32_t element = 4;  ///< bytes per element of the shader's array: 4 or 8
  Access access = Access::read;
};

/// Workgroups of a launch.
struct LaunchGroups {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// One dispatch.
struct Launch {
  const ComputeKernel* kernel = nullptr;  ///< must outlive the call
  std::span<const Argument> arguments;    ///< in the order of ComputeKernel::arguments
  std::span<const std::uint32_t> words;   ///< in the order of ComputeKernel::words
  LaunchGroups groups;                    ///< each below limits().groups
};

/// Limits for the kernels of a backend.
struct LaunchLimits {
  std::uint64_t binding_bytes = 0;   ///< per argument
  std::uint32_t groups = 0;          ///< workgroups along an axis
  std::uint32_t local_size = 0;      ///< invocations per workgroup
  std::uint32_t shared_bytes = 0;    ///< per workgroup
  std::uint32_t subgroup_size = 1;   ///< 1: none
  bool subgroup_arithmetic = false;  ///< subgroupAdd and the like
  bool subgroup_shuffle = false;     ///< subgroupShuffle, subgroupBallot
  bool int64 = false;                ///< the type, in shaders
  bool int64_atomics = false, atomic_float32 = false, atomic_float64 = false;
  bool cooperative_matrix = false;
  bool groups_progress = false;         ///< running workgroups progress while others wait for them
  std::uint32_t loop_iterations = ~0u;  ///< per invocation; further iterations are silently skipped
  bool occupied_by_few = false;         ///< a few workgroups occupy it: it runs on the CPU
};

/// Totals since a backend was opened; the difference of two readings gives a period.
struct BackendCounters {
  std::uint64_t bytes_up = 0;                             ///< from ordinary host memory
  std::uint64_t bytes_down = 0;                           ///< to ordinary host memory
  std::uint64_t launches = 0;                             ///< dispatches
  std::uint64_t submissions = 0;                          ///< submissions of recorded work
  std::uint64_t barriers = 0;                             ///< between launches of one submission
  std::uint64_t compiled = 0;                             ///< kernels made from source or from disk
  std::uint64_t from_disk = 0;                            ///< part of these found on disk
  std::uint64_t bytes_in_use = 0, peak_bytes_in_use = 0;  ///< of allocations; current, not totals

  BackendCounters operator-(const BackendCounters& earlier) const;
};

/// Times the work of a backend. As thread-safe as the backend.
class QueueClock {
 public:
  virtual ~QueueClock() = default;

  /// Begins to time work that is queued from now on. Returns false if a timing is in progress:
  /// there is one at a time, which its beginner ends.
  virtual bool begin() = 0;
  /// Ends the timing. `done` is called with the device's µs when they are known, by a later call of
  /// any member of the backend or at once; with nothing if no work was queued. Devices without
  /// timestamps are waited for, and their µs are the host's.
  virtual void end(std::function<void(std::optional<double> microseconds)> done) = 0;
  /// `done` is called when all work queued so far has finished, by a later call or at once.
  virtual void when_done(std::function<void()> done) = 0;
};

/// A device. Thread-safe; work queued by several threads runs in the order of their calls.
///
/// Work is recorded, and submitted when something is read, when enough has been recorded (an
/// estimate of some milliseconds, far below the 250 ms that desktop watchdogs allow), or by
/// flush(). Recorded calls behave as if they ran one after the other; barriers are recorded only
/// where a launch needs data that another wrote. Queued work keeps its resources alive.
class OpBackend : public std::enable_shared_from_this<OpBackend> {
 public:
  OpBackend(DeviceFacts facts, const LaunchLimits& limits)
      : facts_(std::move(facts)), limits_(limits) {}
  virtual ~OpBackend() = default;

  const DeviceFacts& facts() const { return facts_; }
  const LaunchLimits& limits() const { return limits_; }
  /// True for cpu_backend() alone.
  bool is_cpu() const;

  /// Throws Error{OutOfDeviceMemory, OutOfHostMemory}. For 0 bytes, allocates one word.
  virtual std::shared_ptr<Memory> allocate(std::uint64_t bytes, std::string_view name) = 0;

  /// The caller's memory as memory of this backend, which host() returns; it is never copied. Null
  /// if this is impossible (devices import only whole pages). The caller's memory must outlive the
  /// result and queued work.
  virtual std::shared_ptr<Memory> import(std::span<std::byte>, std::string_view) { return nullptr; }
  /// Queues and submits a copy into new memory that has a host(); see wait(). Null if the memory
  /// has a host() itself.
  virtual std::shared_ptr<Memory> fetch(const std::shared_ptr<Memory>&, std::string_view) {
    return nullptr;
  }

  /// Reads `from` before it returns.
  virtual void upload(const std::shared_ptr<Memory>& to, std::uint64_t offset,
                      std::span<const std::byte> from) = 0;
  /// Waits for all queued work first.
  virtual void download(const std::shared_ptr<Memory>& from, std::uint64_t offset,
                        std::span<std::byte> to) = 0;
  /// Copies between allocations of this backend; offsets and size are multiples of 4.
  virtual void copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
                    const std::shared_ptr<Memory>& to, std::uint64_t to_offset,
                    std::uint64_t bytes) = 0;
  /// Writes `word` to each 32-bit word; offset and size are multiples of 4.
  virtual void fill(const std::shared_ptr<Memory>& to, std::uint64_t offset, std::uint64_t bytes,
                    std::uint32_t word) = 0;
  /// Waits until the host may access memory.host().
  virtual void wait(const std::shared_ptr<Memory>& memory) = 0;

  /// Queues a kernel, and compiles it at its first use (SPIR-V is stored on disk).
  ///
  /// Throws Error{ShaderCompile, LayoutMismatch, Unsupported, InvalidArgument}; Error{Unsupported}
  /// on the CPU.
  virtual void launch(const Launch& launch) = 0;
  /// Makes the kernel if it does not exist. Returns true if it had to be made.
  virtual bool prepare(const ComputeKernel& kernel) = 0;

  /// Submits recorded work; does not wait.
  virtual void flush() = 0;
  /// flush(), then waits until all work has finished. Bounded: Error{Timeout}, Error{DeviceLost}.
  virtual void synchronise() = 0;

  virtual QueueClock& clock() = 0;
  virtual BackendCounters counters() const = 0;

  /// The first `count` numbers, f32 or f64, of memory that is not written any more, as data of
  /// problems solved on this device. Null on the CPU.
  virtual std::shared_ptr<const ir::ResidentData> numbers(const std::shared_ptr<Memory>&, Type,
                                                          std::uint64_t /*count*/) {
    return nullptr;
  }

 private:
  const DeviceFacts facts_;
  const LaunchLimits limits_;
};

/// The backend of the CPU.
const std::shared_ptr<OpBackend>& cpu_backend();

/// Workgroups of the kernel's size for a number of invocations, in x and y; the kernel finds its
/// position by linear_item() and compares it with its count. Throws Error{Unsupported} if there are
/// too many.
LaunchGroups linear_groups(const OpBackend& backend, const ComputeKernel& kernel,
                           std::uint64_t items);

}  // namespace topograd::ops
