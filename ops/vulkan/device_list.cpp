// Lists Vulkan devices for operations.
#include "../backend/device_list.hpp"

#include "../../ir/error.hpp"
#include "../../runtime/device/check/self_check.hpp"
#include "../../runtime/hybrid/vulkan/hybrid_backend.hpp"
#include "backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace topograd::ops {
namespace {

namespace vk = runtime::vulkan;

/// Equal options for equal devices; for the device that solves use, their options.
vk::DeviceOptions options_of(std::size_t index, std::optional<std::size_t> preferred) {
  vk::DeviceOptions options;
  if (index != preferred) options.device = std::to_string(index);
  return options;
}

std::optional<std::size_t> preferred_of(const std::vector<vk::DeviceInfo>& list) {
  try {
    return vk::choose_device(list, {});
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<ListedDevice> devices_of_system() {
  const std::vector<vk::DeviceInfo> found = vulkan_devices();
  const std::optional<std::size_t> preferred = preferred_of(found);
  const bool named = std::getenv("TOPOGRAD_DEVICE") != nullptr;
  std::vector<ListedDevice> out;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const vk::DeviceInfo& info = found[k];
    ListedDevice listed;
    listed.facts = facts_of(info);
    listed.problem = info.unusable;
    listed.preferred = k == preferred;
    listed.asked_for = listed.preferred && named;
    listed.open = [options = options_of(k, preferred)] {
      vk::require_self_check(options);
      return open_vulkan(options);
    };
    listed.for_executor = [options = options_of(k, preferred), info] {
      return vk::make_hybrid_backend(options, info);
    };
    out.push_back(std::move(listed));
  }
  return out;
}

Device open_named(std::string_view which) {
  vk::DeviceOptions options;
  options.device = which;
  const std::vector<vk::DeviceInfo> found = vk::devices();
  return open_vulkan(options_of(vk::choose_device(found, options), preferred_of(found)));
}

}  // namespace topograd::ops
