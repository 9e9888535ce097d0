// Kernels of generated source: their jobs, their modules on disk, and those in compilation.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../../../codegen/spirv/edit_modules.hpp"
#include "../../../ir/enum_table.hpp"
#include "../../cache/content_hash.hpp"
#include "../device.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

struct Features;

/// The modes of a device for a width that can keep both denormals, and signed zeros, infinities and
/// NaN; none for another width.
codegen::FloatControls float_controls(const Features& features);

/// A compute shader and what its module has to be. Views outlive the call that takes them.
struct Shader {
  std::string_view name;  ///< for profilers and messages
  std::string_view glsl;
  Hash128 key;  ///< of all that the module depends on
  codegen::FloatControls controls = {};
  std::uint32_t storage_buffers = 0, push_constant_bytes = 0;
  std::array<std::uint32_t, 3> local_size = {};  ///< zeros: the one that the module declares
  /// From the code generator: it has the whole layout of the module and the features that it needs,
  /// which are read from the module of any other shader.
  const codegen::KernelSource* source = nullptr;
};

/// The shader of a generated source, which outlives it.
Shader shader_of(const codegen::KernelSource& source);

/// Compiles a shader to SPIR-V with its float controls. Throws Error{ShaderCompile}.
std::vector<std::uint32_t> compile_shader(const Shader& shader);

/// The place at which a module was found.
enum class Origin { memory, disk, compiled };
TG_ENUM_NAMES(Origin)

/// A kernel, and its compilation times as in KernelFigures.
struct StoredKernel {
  Kernel kernel;
  double spirv_ms = 0, pipeline_ms = 0;
  Origin origin = Origin::memory;
};

/// A kernel of the code generator, and the interface of its source.
struct MadeKernel : StoredKernel {
  codegen::KernelSource source;
  double glsl_ms = 0;  ///< as in KernelFigures
};

/// The making of one kernel. Thread-safe.
class KernelJob {
 public:
  explicit KernelJob(std::function<MadeKernel()> make);

  /// Makes the kernel on this thread unless another has started. Keeps errors for get().
  void run();
  /// True if it was made or has failed; does not wait.
  bool ready() const;
  /// Makes the kernel on this thread, or waits for the thread that does. Throws the compilation's
  /// error.
  const MadeKernel& get();

 private:
  std::function<MadeKernel()> make_;
  std::atomic<bool> taken_{false};
  std::promise<MadeKernel> promise_;
  std::shared_future<MadeKernel> future_;
};

/// Lets a thread of TBB's pool run the job, if somebody still holds it then.
void run_in_background(const std::shared_ptr<KernelJob>& job);

/// Cost of making kernels. Times are sums over threads.
struct CompileStats {
  std::uint64_t compiled = 0;     ///< modules that were compiled
  std::uint64_t disk_hits = 0;    ///< modules read from disk
  std::uint64_t memory_hits = 0;  ///< kernels that were already in memory
  double glsl_ms = 0;             ///< sources
  double spirv_ms = 0;            ///< compiler, reflection and disk
  double pipeline_ms = 0;         ///< driver
  double wall_ms = 0;             ///< wall time with at least one thread at work
};

/// Costs of the kernels that one engine requested. Thread-safe.
class CompileAccount {
 public:
  using Clock = std::chrono::steady_clock;
  class Busy;  // the wall clock runs while one exists

  CompileStats stats() const;
  void count(std::uint64_t CompileStats::*counter);
  /// Adds the milliseconds since `start` to one of the times, and returns them.
  double add(double CompileStats::*time, Clock::time_point start);

 private:
  mutable std::mutex mutex_;  // guards the members below
  CompileStats stats_;
  int busy_ = 0;
  Clock::time_point busy_since_;
};

/// Statements of a kernel's programs, at most: for more, compilers of drivers take from seconds to
/// minutes. Residuals of the usual size have at most a few hundred, second derivatives and sums by
/// role a few thousand.
inline constexpr std::uint32_t kMostStatements = 10'000;

/// Kernels of one device by the keys of their shaders. Every module of the library is compiled, or
/// read from disk, here. Thread-safe.
class KernelCache : public std::enable_shared_from_this<KernelCache> {
 public:
  explicit KernelCache(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Returns the pipeline for a shader; counts its cost in `account` and returns it with the
  /// kernel. Errors on disk are counted by the disk cache and never throw.
  ///
  /// Throws Error{ShaderCompile}, Error{LayoutMismatch} if the module has another interface,
  /// Error{Unsupported} if the device lacks a feature that it needs or if a generated source is
  /// longer than kMostStatements.
  StoredKernel kernel(const Shader& shader, CompileAccount& account);
  MadeKernel kernel(codegen::KernelSource source, CompileAccount& account);

  /// Starts to make the kernel for the source from `generate` on the pool; `generate` owns all that
  /// it reads. The job throws the errors of kernel(). It keeps the cache and the device alive.
  std::shared_ptr<KernelJob> begin(std::function<codegen::KernelSource()> generate,
                                   std::shared_ptr<CompileAccount> account);

 private:
  StoredKernel make(const Shader& shader, CompileAccount& account);

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;  // guards the members below
  std::unordered_map<Hash128, std::shared_future<Kernel>> kernels_;
};

/// Test hook: delays each compilation by this time, to simulate slow compilers.
void set_compile_delay(std::chrono::milliseconds delay);

/// The cache that engines, array operations and tasks on a device share.
std::shared_ptr<KernelCache> kernel_cache(const std::shared_ptr<Device>& device);

/// Number of kernels, on all devices, whose making was started on the pool (KernelCache::begin) and
/// has not ended; those that nobody waits for any more do not count. Thread-safe.
std::size_t unmade_kernels();

/// Called by engines as they declare and record, on their thread.
struct RecordingWatch {
  std::function<void(const std::vector<std::shared_ptr<KernelJob>>&)> declared;
  std::function<void(std::string_view list)> recording;
  std::function<void(KernelJob&)> used;
};

/// Null: nobody watches. The watch outlives its use.
void set_recording_watch(const RecordingWatch* watch);
const RecordingWatch* recording_watch();

}  // namespace topograd::runtime::vulkan
