// Queries a device for VK_KHR_cooperative_matrix.
#include "khr_matrices.hpp"

#include "../driver/instance.hpp"
#include "core.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {

bool has_khr_matrices(const vk::raii::PhysicalDevice& physical, const Features& features,
                      const DeviceOptions& options) {
  if (!features.cooperative_matrix || options.validation) return false;
  const auto names = extension_names(physical);
  if (std::ranges::find(names, KhrMatrixFeatures::kExtension) == names.end()) return false;
  KhrMatrixFeatures matrices;
  VkPhysicalDeviceFeatures2 asked{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &matrices, .features = {}};
  physical.getDispatcher()->vkGetPhysicalDeviceFeatures2(static_cast<VkPhysicalDevice>(*physical),
                                                         &asked);
  return matrices.cooperativeMatrix == VK_TRUE;
}

bool has_khr_matrices(const Device& device) {
  const Core& core = *device.core();
  return has_khr_matrices(core.physical, core.info.features, core.options);
}

}  // namespace topograd::runtime::vulkan
