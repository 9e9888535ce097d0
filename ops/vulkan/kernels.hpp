// Internal: kernels of one Vulkan device by the hash of their source, with SPIR-V stored on disk.
#pragma once

#include "../../runtime/device/device.hpp"
#include "../backend/compute_kernel.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace topograd::ops {

/// Thread-safe.
class VulkanKernels {
 public:
  explicit VulkanKernels(std::shared_ptr<runtime::vulkan::Device> device)
      : device_(std::move(device)) {}

  /// The kernel, and true if it had to be made.
  ///
  /// Throws Error{ShaderCompile, LayoutMismatch, Unsupported}.
  std::pair<runtime::vulkan::Kernel, bool> make(const ComputeKernel& text);
  std::uint64_t made() const { return made_; }
  /// Part of these whose module was found on disk.
  std::uint64_t from_disk() const { return from_disk_; }

 private:
  runtime::vulkan::Kernel compile(const ComputeKernel& text);

  const std::shared_ptr<runtime::vulkan::Device> device_;
  std::mutex mutex_;
  std::unordered_map<ir::Hash128, runtime::vulkan::Kernel> kernels_;
  std::atomic<std::uint64_t> made_{0}, from_disk_{0};
};

}  // namespace topograd::ops
