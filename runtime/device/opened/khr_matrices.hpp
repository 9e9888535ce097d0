// Internal: VK_KHR_cooperative_matrix, which is newer than the headers of the build.
#pragma once

#include "../device.hpp"
#include "../driver/driver.hpp"

namespace topograd::runtime::vulkan {

/// VkPhysicalDeviceCooperativeMatrixFeaturesKHR.
struct KhrMatrixFeatures {
  static constexpr const char* kExtension = "VK_KHR_cooperative_matrix";

  VkStructureType sType = static_cast<VkStructureType>(1000506000);
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE;
  VkBool32 cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

/// True if a device with VK_NV_cooperative_matrix also has the KHR extension, with products of 16 x
/// 16 matrices of f16 and sums of f32. False under the validation layer, which is as old as the
/// headers and refuses such modules.
bool has_khr_matrices(const vk::raii::PhysicalDevice& physical, const Features& features,
                      const DeviceOptions& options);
bool has_khr_matrices(const Device& device);

}  // namespace topograd::runtime::vulkan
