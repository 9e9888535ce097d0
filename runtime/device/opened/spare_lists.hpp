// Internal: pools of destroyed command lists, for reuse.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "../driver/driver.hpp"

namespace topograd::runtime::vulkan {

class Core;

/// A command pool with its one primary command buffer, a pool of descriptors and one of timestamps.
struct ListParts {
  vk::raii::CommandPool pool{nullptr};
  vk::raii::CommandBuffer commands{nullptr};
  std::optional<vk::raii::DescriptorPool> descriptors;
  std::optional<vk::raii::QueryPool> timestamps;
};

/// Making pools costs a driver more than recording a few dispatches. Thread-safe.
class SpareLists {
 public:
  explicit SpareLists(Core& core) : core_(core) {}

  /// Returns empty parts; recording has not begun.
  ListParts take();
  /// Returns parts that no work in flight uses. A limited number is kept.
  void give(ListParts parts) noexcept;

 private:
  Core& core_;
  std::mutex mutex_;
  std::vector<ListParts> spare_;
};

}  // namespace topograd::runtime::vulkan
