// What every kind of device offers to storages and operations.
#pragma once

#include "../../ir/batch/remote_numbers.hpp"
#include "device.hpp"
#include "kernel_text.hpp"
#include "type.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace topograd::ops {

/// One allocation of a backend; returns to its pool when nothing refers to it any more and nothing
/// queued uses it. Contents start undefined.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes) {}
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  /// Where the host reads and writes it without a copy, after Backend::wait(); else null.
  virtual std::byte* host() const = 0;

 private:
  std::uint64_t bytes_;
};

/// A range of memory that a kernel sees at one binding.
///
/// Any element is a good place to begin: the binding starts at the last aligned byte before it, and
/// the kernel is told how many elements lie between (KernelText). What is written is bound once.
struct Argument {
  std::shared_ptr<Memory> memory;
  std::uint64_t offset = 0;   ///< bytes, a multiple of `element`
  std::uint64_t bytes = 0;    ///< at most Backend::limits().binding_bytes
  std::uint32_t element = 4;  ///< bytes of what the shader's array holds: 4 or 8
  Access access = Access::read;
};

/// Workgroups of a launch.
struct Groups {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// One dispatch.
struct Launch {
  const KernelText* kernel = nullptr;    ///< outlives the call
  std::span<const Argument> arguments;   ///< in the order of KernelText::arguments
  std::span<const std::uint32_t> words;  ///< in the order of KernelText::words
  Groups groups;                         ///< each below limits().groups
};

/// What kernels of a backend must keep to.
struct LaunchLimits {
  std::uint64_t binding_bytes = 0;      ///< of one argument
  std::uint32_t groups = 0;             ///< workgroups along one axis
  std::uint32_t local_size = 0;         ///< invocations of a workgroup
  std::uint32_t shared_bytes = 0;       ///< of a workgroup
  std::uint32_t subgroup_size = 1;      ///< 1: none
  bool subgroup_arithmetic = false;     ///< subgroupAdd and the like
  bool subgroup_shuffle = false;        ///< subgroupShuffle, subgroupBallot
  bool float64 = false, int64 = false;  ///< types of shaders
  bool int64_atomics = false, atomic_float32 = false, atomic_float64 = false;
  bool cooperative_matrix = false;
  bool groups_progress = false;  ///< workgroups that have begun go on while others wait for them
  std::uint32_t loop_iterations = ~0u;  ///< of one invocation; what is beyond is silently left out
  bool software = false;                ///< the CPU in disguise
  bool occupied_by_few = false;         ///< a few workgroups fill it: software
};

/// Totals since a backend was opened. Subtract two readings for a span.
struct BackendCounters {
  std::uint64_t bytes_up = 0;     ///< from ordinary host memory
  std::uint64_t bytes_down = 0;   ///< to ordinary host memory
  std::uint64_t launches = 0;     ///< dispatches
  std::uint64_t submissions = 0;  ///< of recorded work
  std::uint64_t barriers = 0;     ///< between launches of one submission
  std::uint64_t compiled = 0;     ///< kernels made, from source or from disk
  std::uint64_t bytes_in_use = 0, peak_bytes_in_use = 0;  ///< of allocations; not differences

  BackendCounters operator-(const BackendCounters& earlier) const;
};

/// A device. Any thread may call; what several threads queue runs in the order of their calls.
///
/// Work is recorded and submitted when something is read, when enough has been recorded (an
/// estimate of some milliseconds, far below the 250 ms that desktop watchdogs allow), or by
/// flush(). Recorded work runs as if one call came after the other; barriers stand only where one
/// launch needs what another has written. What queued work uses stays alive until it has run.
class Backend : public std::enable_shared_from_this<Backend> {
 public:
  virtual ~Backend() = default;

  virtual const DeviceFacts& facts() const = 0;
  virtual bool is_cpu() const { return false; }
  virtual const LaunchLimits& limits() const = 0;

  /// Throws Error{OutOfDeviceMemory, OutOfHostMemory}. `bytes` 0 is one word.
  virtual std::shared_ptr<Memory> allocate(std::uint64_t bytes, std::string_view name) = 0;

  /// The caller's own memory as memory of this backend, which host() gives back: no byte is ever
  /// copied. Null where that cannot be (devices import whole pages alone). The caller's memory
  /// outlives it and what is queued.
  virtual std::shared_ptr<Memory> import(std::span<std::byte>, std::string_view) { return nullptr; }
  /// Queues a copy of it into new memory that has a host(), and submits it; see wait(). Null where
  /// it has one itself.
  virtual std::shared_ptr<Memory> fetch(const std::shared_ptr<Memory>&, std::string_view) {
    return nullptr;
  }

  /// `from` is read before it returns.
  virtual void upload(const std::shared_ptr<Memory>& to, std::uint64_t offset,
                      std::span<const std::byte> from) = 0;
  /// After all that was queued; waits.
  virtual void download(const std::shared_ptr<Memory>& from, std::uint64_t offset,
                        std::span<std::byte> to) = 0;
  /// Between allocations of this backend; offsets and size are multiples of 4.
  virtual void copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
                    const std::shared_ptr<Memory>& to, std::uint64_t to_offset,
                    std::uint64_t bytes) = 0;
  /// `word` into each 32-bit word; offset and size are multiples of 4.
  virtual void fill(const std::shared_ptr<Memory>& to, std::uint64_t offset, std::uint64_t bytes,
                    std::uint32_t word) = 0;
  /// Until the host may touch memory.host().
  virtual void wait(const std::shared_ptr<Memory>& memory) = 0;

  /// Queues a kernel. Compiles it the first time (SPIR-V is kept on disk).
  ///
  /// Throws Error{ShaderCompile, LayoutMismatch, Unsupported, InvalidArgument}; Error{Unsupported}
  /// on the CPU.
  virtual void launch(const Launch& launch) = 0;
  /// Makes the kernel, if it is not there. True if it had to be made.
  virtual bool prepare(const KernelText& kernel) = 0;

  /// Submits what is recorded; does not wait.
  virtual void flush() = 0;
  /// flush(), and waits until all has finished. Bounded: Error{Timeout}, Error{DeviceLost}.
  virtual void synchronise() = 0;

  /// Begins to time what is queued from now on. False if something is being timed: there is one
  /// such span at a time, and whoever began it ends it.
  virtual bool begin_timing() = 0;
  /// Ends it. `done` is called with the device's µs when they are known: by a later call of any
  /// member, or at once; with nothing where the device has no clock.
  virtual void end_timing(std::function<void(std::optional<double> microseconds)> done) = 0;

  /// `done` is called when all that has been queued so far has finished: by a later call of any
  /// member, or at once.
  virtual void when_done(std::function<void()> done) = 0;

  virtual BackendCounters counters() const = 0;

  /// The first `count` numbers of memory that nobody writes any more, f32 or f64, as the data of
  /// problems that are solved on this device. Null on the CPU.
  virtual std::shared_ptr<const ir::RemoteNumbers> numbers(const std::shared_ptr<Memory>&, Type,
                                                           std::uint64_t /*count*/) {
    return nullptr;
  }
};

/// The one of the CPU.
const std::shared_ptr<Backend>& cpu_backend();

/// So many invocations in workgroups of the kernel's size, in x and y; the kernel finds its place
/// by linear_item() and compares it with its count. Throws Error{Unsupported} if they are too many.
Groups linear_groups(const Backend& backend, const KernelText& kernel, std::uint64_t items);

}  // namespace topograd::ops
