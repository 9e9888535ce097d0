// A Vulkan loader that cannot make instances: a driver that exists and fails.
#include <cstdint>
#include <cstring>

namespace {

using Function = void (*)();

std::int32_t version(std::uint32_t* out) {
  *out = std::uint32_t{1} << 22 | 3u << 12;  // 1.3
  return 0;
}
std::int32_t no_layers(std::uint32_t* count, void*) {
  *count = 0;
  return 0;
}
std::int32_t no_extensions(const char*, std::uint32_t* count, void*) {
  *count = 0;
  return 0;
}
std::int32_t fail(const void*, const void*, void*) {
  return -1;  // VK_ERROR_OUT_OF_HOST_MEMORY
}

}  // namespace

extern "C" Function vkGetInstanceProcAddr(void*, const char* name) {
  const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("vkEnumerateInstanceVersion")) return reinterpret_cast<Function>(version);
  if (is("vkEnumerateInstanceLayerProperties")) return reinterpret_cast<Function>(no_layers);
  if (is("vkEnumerateInstanceExtensionProperties"))
    return reinterpret_cast<Function>(no_extensions);
  if (is("vkCreateInstance")) return reinterpret_cast<Function>(fail);
  if (is("vkGetInstanceProcAddr")) return reinterpret_cast<Function>(vkGetInstanceProcAddr);
  return nullptr;
}
