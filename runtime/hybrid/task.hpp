// A piece of work with an implementation for the CPU and one for devices.
#pragma once

#include "compare.hpp"
#include "routing/decision.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime::hybrid {

class Executor;

/// Marks this thread as running a task of the executor, while it lives.
class RunsTask {
 public:
  explicit RunsTask(const Executor& executor);
  ~RunsTask();
  RunsTask(const RunsTask&) = delete;
  RunsTask& operator=(const RunsTask&) = delete;

  /// True on a thread that runs a task of this executor, or a part of one.
  static bool here(const Executor& executor);

 private:
  friend class CpuThreads;
  const Executor& executor_;
  const RunsTask* outer_;
};

/// Items [begin, end) of a task.
struct Items {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t count() const { return end - begin; }
};

/// Threads for the CPU side of a task.
class CpuThreads {
 public:
  /// 0 = all threads of the machine.
  explicit CpuThreads(std::uint64_t threads);
  ~CpuThreads();
  int count() const;
  /// Calls f(begin, end) for ranges [0, grain), [grain, 2 grain), ... of [0, count), in any order.
  void for_ranges(std::size_t count, std::size_t grain,
                  const std::function<void(std::size_t, std::size_t)>& f) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One storage buffer of a program, made of consecutive pieces.
struct DeviceArray {
  std::vector<std::span<const std::byte>> read;  ///< uploaded before the run
  std::vector<std::span<std::byte>> written;     ///< read back after the run; not both
  /// Inputs that stay on the device: data under the same key and version are not uploaded again. 0
  /// = not kept.
  std::uint64_t key = 0, version = 0;
  Element element = Element::bits;  ///< for Executor::check() and values_of()

  std::uint64_t bytes() const;
};

/// A compute shader and its arrays.
///
/// GLSL 4.50 with local_size_x; set 0, one storage buffer per binding, in the order of `arrays`;
/// push constants `uint first; uint items;`, then `constants`. Item first + gl_GlobalInvocationID.x
/// runs if it is below `items`.
struct DeviceProgram {
  std::string name;
  std::string glsl;
  std::vector<DeviceArray> arrays;
  std::vector<std::byte> constants;  ///< a multiple of 4 bytes
  std::uint64_t items = 0;
  /// Each item reads and writes only its own elements: programs of tasks with one kernel can run as
  /// one, with their arrays concatenated.
  bool itemwise = false;
};

class DeviceBackend;

/// A result of a task, made of consecutive pieces of its memory.
struct TaskResult {
  std::string name;
  Element element = Element::bits;
  std::vector<std::span<std::byte>> pieces;
};

/// Statistics of a task on a device.
struct RunReport {
  Terms times;
  std::uint64_t bytes_up = 0, bytes_down = 0;
  std::uint64_t cache_hits = 0;  ///< kernels and arrays found in caches
  bool cold = false;             ///< something was compiled or allocated
};

/// Both implementations give the same result up to rounding, and neither changes its inputs.
class Task {
 public:
  virtual ~Task() = default;

  virtual TaskShape shape() const = 0;
  /// Threads that the CPU side may use; 0 = the executor's.
  virtual std::uint64_t threads() const { return 0; }
  /// True if items may be divided between the CPU and a device.
  virtual bool splittable() const { return false; }

  virtual void run_on_cpu(const CpuThreads& threads, Items items) = 0;
  /// The shader for these items, if there is one.
  virtual std::optional<DeviceProgram> program(Items /*items*/) { return std::nullopt; }
  /// Runs the program by default. Throws Error{Unsupported} without one.
  virtual RunReport run_on_device(DeviceBackend& device, Items items);
  /// The memory to which both sides write, for Executor::check(). By default the written arrays of
  /// the program for all items, as "array 2" by their bindings.
  virtual std::vector<TaskResult> checked_results();
};

/// Statistics of a task.
struct ExecutionStats {
  std::string device;   ///< "cpu", or the device's name, also of a split task
  bool on_cpu = false;  ///< the CPU alone ran it
  Decision decision;
  Terms times;  ///< at the result's origin; µs
  std::uint64_t bytes_up = 0, bytes_down = 0, cache_hits = 0;
  std::uint64_t coalesced = 1;  ///< tasks in the dispatch; its times are those of all of them
  double cpu_share = 0;         ///< of the items; in (0, 1) if both sides worked
  std::string fallback;         ///< reason for the device's failure, if the CPU took over
  std::uint64_t checked = 0;    ///< elements that OpOptions::cross_check compared
};

struct CheckOptions {
  std::string device = {};  ///< name; empty: the first one that is admitted, or else the first one
  double relative = -1;     ///< tolerance of floating-point results; < 0: by type (tolerance_of())
};

/// Results of a task on both sides.
struct TaskCheck {
  std::string device;
  Terms on_cpu, on_device;  ///< times
  std::vector<Comparison> results;

  bool agrees() const;
  /// A line for each result.
  std::string text() const;
};

/// The first `most` elements of each array of a task's program, and of other results of the task:
/// "array 0 in: 1, 2, 3 (3 f32)", a line each.
std::string values_of(Task& task, std::size_t most = 8);

}  // namespace topograd::runtime::hybrid
