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

/// Kernels of one device by the hash of their source. Thread-safe.
class KernelCache : public std::enable_shared_from_this<KernelCache> {
 public:
  explicit KernelCache(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Returns the pipeline for `source`; counts its cost in `account` and returns it with the
  /// kernel.
  ///
  /// Throws Error{ShaderCompile}, Error{LayoutMismatch} if the reflected module disagrees with
  /// source.bindings, Error{Unsupported} if the device lacks a required feature or if the source is
  /// longer than kMostStatements.
  MadeKernel kernel(codegen::KernelSource source, CompileAccount& account);

  /// Starts to make the kernel for the source from `generate` on the pool; `generate` owns all that
  /// it reads. The job throws the errors of kernel(). It keeps the cache and the device alive.
  std::shared_ptr<KernelJob> begin(std::function<codegen::KernelSource()> generate,
                                   std::shared_ptr<CompileAccount> account);

 private:
  /// Sets everything but the time of the source.
  void make(MadeKernel& made, CompileAccount& account);
  std::vector<std::uint32_t> module(MadeKernel& made, CompileAccount& account);

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;  // guards the members below
  std::unordered_map<ir::Hash128, std::shared_future<Kernel>> kernels_;
};

/// Test hook: delays each compilation by this time, to simulate slow compilers.
void set_compile_delay(std::chrono::milliseconds delay);

/// The cache that all engines on a device share.
std::shared_ptr<KernelCache> kernel_cache(const std::shared_ptr<Device>& device);

/// Compiles a source to SPIR-V, adds its float controls, and checks the reflected layout.
///
/// Throws Error{ShaderCompile} or Error{LayoutMismatch}.
std::vector<std::uint32_t> compile_checked(const codegen::KernelSource& source);

}  // namespace topograd::runtime::vulkan
