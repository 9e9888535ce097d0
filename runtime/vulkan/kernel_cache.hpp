// From generated source to a pipeline: SPIR-V from memory, disk or compiler, checked, made once.
#pragma once

#include <topograd/codegen/kernel.hpp>
#include <topograd/runtime/vulkan/device.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace topograd::runtime::vulkan {

/// What making kernels has cost so far.
struct CompileStats {
  std::uint64_t compiled = 0;     ///< modules that went through the compiler
  std::uint64_t disk_hits = 0;    ///< modules read from disk
  std::uint64_t memory_hits = 0;  ///< kernels that were there already
  double spirv_ms = 0;            ///< compiler, reflection and disk
  double pipeline_ms = 0;         ///< driver

  CompileStats operator-(const CompileStats& earlier) const;
};

/// Kernels of one device by the hash of their source. Any thread may call.
class KernelCache {
 public:
  explicit KernelCache(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// The pipeline for `source`.
  ///
  /// Throws Error{ShaderCompile}, Error{LayoutMismatch} if the module read back disagrees with
  /// source.bindings, Error{Unsupported} if the device lacks what the source needs.
  Kernel kernel(const codegen::KernelSource& source);

  CompileStats stats() const;

 private:
  std::vector<std::uint32_t> module(const codegen::KernelSource& source);

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::unordered_map<ir::Hash128, Kernel> kernels_;
  CompileStats stats_;
};

/// The cache that all engines on a device share.
std::shared_ptr<KernelCache> kernel_cache(const std::shared_ptr<Device>& device);

/// SPIR-V of a source: compiled, with the float controls that it asks for, read back and checked.
///
/// Throws Error{ShaderCompile} or Error{LayoutMismatch}.
std::vector<std::uint32_t> compile_checked(const codegen::KernelSource& source);

}  // namespace topograd::runtime::vulkan
