// Internal: what command lists that are gone were recorded into, for those that come.
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

/// Making them costs a driver more than recording a few dispatches. Any thread may call.
class SpareLists {
 public:
  explicit SpareLists(Core& core) : core_(core) {}

  /// With nothing recorded, not begun.
  ListParts take();
  /// Nothing in flight uses them. Some are kept.
  void give(ListParts parts) noexcept;

 private:
  Core& core_;
  std::mutex mutex_;
  std::vector<ListParts> spare_;
};

}  // namespace topograd::runtime::vulkan
