// Test for a Vulkan device for the other tests. With CI set, its absence is a failure, not a skip.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <vulkan/vulkan.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

/// Missing requirement of Vulkan 1.2, or an empty string. It uses the C interface alone, so that a
/// defect of the library cannot make every Vulkan test skip in silence.
std::string missing_vulkan() {
  const char* path = std::getenv("TOPOGRAD_VULKAN_LOADER");
  void* loader = dlopen(path != nullptr ? path : "libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (loader == nullptr) return "no Vulkan loader";
  const auto get =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(loader, "vkGetInstanceProcAddr"));
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  VkInstance instance = nullptr;
  if (create(&info, nullptr, &instance) != VK_SUCCESS) return "no Vulkan driver";
  const auto enumerate =
      reinterpret_cast<PFN_vkEnumeratePhysicalDevices>(get(instance, "vkEnumeratePhysicalDevices"));
  std::uint32_t count = 0;
  const VkResult result = enumerate(instance, &count, nullptr);
  reinterpret_cast<PFN_vkDestroyInstance>(get(instance, "vkDestroyInstance"))(instance, nullptr);
  return result == VK_SUCCESS && count > 0 ? "" : "no Vulkan device";
}

TEST(VulkanDevice, IsThereWhereItMustBe) {
  const std::string missing = missing_vulkan();
  const char* ci = std::getenv("CI");
  const bool required = ci != nullptr && std::string_view(ci) == "true";
  if (!missing.empty() && !required) GTEST_SKIP() << missing;
  EXPECT_EQ(missing, "") << "a machine that runs CI needs one: see docs/requirements.md";
}

}  // namespace
