// From generated source to a pipeline: SPIR-V from memory, disk or compiler, checked, made once.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../device.hpp"
#include "kernel_job.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace topograd::runtime::vulkan {

/// What making kernels has cost. Times are sums over the threads that were at it.
struct CompileStats {
  std::uint64_t compiled = 0;     ///< modules that went through the compiler
  std::uint64_t disk_hits = 0;    ///< modules read from disk
  std::uint64_t memory_hits = 0;  ///< kernels that were there already
  double glsl_ms = 0;             ///< sources
  double spirv_ms = 0;            ///< compiler, reflection and disk
  double pipeline_ms = 0;         ///< driver
  double wall_ms = 0;             ///< during which some thread was at it
};

/// Of the kernels that one engine asked for. Any thread may call.
class CompileAccount {
 public:
  using Clock = std::chrono::steady_clock;
  class Busy;  // while one lives, the wall clock runs

  CompileStats stats() const;
  void count(std::uint64_t CompileStats::*counter);
  /// Adds the milliseconds since `start` to one of the times, and returns them.
  double add(double CompileStats::*time, Clock::time_point start);

 private:
  mutable std::mutex mutex_;  // guards what follows
  CompileStats stats_;
  int busy_ = 0;
  Clock::time_point busy_since_;
};

/// Kernels of one device by the hash of their source. Any thread may call.
class KernelCache : public std::enable_shared_from_this<KernelCache> {
 public:
  explicit KernelCache(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// The pipeline for `source`; what making it costs is counted in `account`, and told with it.
  ///
  /// Throws Error{ShaderCompile}, Error{LayoutMismatch} if the module read back disagrees with
  /// source.bindings, Error{Unsupported} if the device lacks what the source needs.
  MadeKernel kernel(codegen::KernelSource source, CompileAccount& account);

  /// Begins to make the kernel of the source that `generate` gives, on the pool; `generate` owns
  /// all that it reads. The job throws what kernel() throws. It keeps the cache and the device.
  std::shared_ptr<KernelJob> begin(std::function<codegen::KernelSource()> generate,
                                   std::shared_ptr<CompileAccount> account);

 private:
  /// Fills in everything but the source's time.
  void make(MadeKernel& made, CompileAccount& account);
  std::vector<std::uint32_t> module(MadeKernel& made, CompileAccount& account);

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<ir::Hash128, std::shared_future<Kernel>> kernels_;
};

/// Test hook: each kernel that is made takes so much longer, as if compilers were slow.
void set_compile_delay(std::chrono::milliseconds delay);

/// The cache that all engines on a device share.
std::shared_ptr<KernelCache> kernel_cache(const std::shared_ptr<Device>& device);

/// SPIR-V of a source: compiled, with the float controls that it asks for, read back and checked.
///
/// Throws Error{ShaderCompile} or Error{LayoutMismatch}.
std::vector<std::uint32_t> compile_checked(const codegen::KernelSource& source);

}  // namespace topograd::runtime::vulkan
