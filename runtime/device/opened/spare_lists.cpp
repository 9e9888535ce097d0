// Recycling of the pools of lists.
#include "spare_lists.hpp"

#include <utility>

#include "core.hpp"

namespace topograd::runtime::vulkan {
namespace {

/// Slightly more than one thread's lists in flight.
constexpr std::size_t kMost = 16;

}  // namespace

ListParts SpareLists::take() {
  ListParts parts;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      parts = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (*parts.pool) {
    core_.driver.call("vkResetCommandPool", [&] { parts.pool.reset(); });
    if (parts.descriptors) parts.descriptors->reset();
  } else {
    std::tie(parts.pool, parts.commands) = make_commands(core_);
  }
  return parts;
}

void SpareLists::give(ListParts parts) noexcept {
  // Declared before the lock, so that surplus parts are destroyed after it.
  const std::lock_guard lock(mutex_);
  if (spare_.size() >= kMost || core_.driver.lost()) return;
  try {
    spare_.push_back(std::move(parts));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace topograd::runtime::vulkan
