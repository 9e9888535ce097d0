# Finds the Vulkan headers only: libvulkan is opened at run time, never linked.
find_path(VulkanHeaders_INCLUDE_DIR vulkan/vulkan_raii.hpp)
mark_as_advanced(VulkanHeaders_INCLUDE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(VulkanHeaders REQUIRED_VARS VulkanHeaders_INCLUDE_DIR)
if(VulkanHeaders_FOUND AND NOT TARGET topograd_vulkan_headers)
  add_library(topograd_vulkan_headers INTERFACE IMPORTED)
  target_include_directories(topograd_vulkan_headers SYSTEM INTERFACE ${VulkanHeaders_INCLUDE_DIR})
  target_compile_definitions(topograd_vulkan_headers INTERFACE
                             VK_NO_PROTOTYPES VULKAN_HPP_DISPATCH_LOADER_DYNAMIC=1)
endif()
