// Internal: pipelines by content, their layouts, and the driver's pipeline cache.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "../../cache/content_hash.hpp"
#include "../device.hpp"
#include "../driver/driver.hpp"

namespace topograd::runtime::vulkan {

struct KernelState {
  const Core* core = nullptr;
  std::string name;
  std::uint32_t storage_buffers = 0;
  std::uint32_t push_constant_bytes = 0;
  std::array<std::uint32_t, 3> local_size = {1, 1, 1};
  vk::DescriptorSetLayout set_layout;
  vk::PipelineLayout layout;
  vk::raii::Pipeline pipeline{nullptr};
  double creation_ms = 0;
  /// Set when a list runs the kernel: the software device compiles it there.
  mutable std::atomic<bool> recorded{false};
  std::uint64_t first_runs = 1;  ///< weight of its first run, more for a long module
};

class Kernels {
 public:
  explicit Kernels(Core& core) : core_(core) {}

  void start();
  const KernelState* find_or_make(const KernelDesc& desc);
  void save();

 private:
  using Future = std::shared_future<std::shared_ptr<const KernelState>>;

  void check(const KernelDesc& desc) const;
  std::shared_ptr<const KernelState> make(const KernelDesc& desc);
  vk::raii::Pipeline make_pipeline(const KernelDesc& desc, vk::PipelineLayout layout);
  vk::DescriptorSetLayout set_layout(std::uint32_t storage_buffers);
  vk::PipelineLayout pipeline_layout(std::uint32_t storage_buffers, std::uint32_t push_bytes);
  Hash128 cache_key() const;

  Core& core_;
  std::mutex mutex_;  // guards the maps
  std::map<std::uint32_t, vk::raii::DescriptorSetLayout> set_layouts_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, vk::raii::PipelineLayout> layouts_;
  vk::raii::PipelineCache cache_{nullptr};
  std::map<Hash128, Future> kernels_;
  std::mutex save_mutex_;  // guards the members below
  Hash128 saved_;
  std::chrono::steady_clock::time_point save_again_;
};

}  // namespace topograd::runtime::vulkan
