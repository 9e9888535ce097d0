// The table of fallible calls, against the registry of the specification and our own calls.
#include <gtest/gtest.h>

#include <vulkan/vulkan_core.h>
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "../../../runtime/device/driver/faults.hpp"

#include "../../support/paths.hpp"

namespace topograd::test {
namespace {

namespace vulkan = runtime::vulkan;
namespace fs = std::filesystem;

constexpr const char* kRegistry = "/usr/share/vulkan/registry/vk.xml";

// By the registry's names, some of which are older than the present ones.
const std::map<std::string, std::int32_t> kValues = {
    {"VK_ERROR_OUT_OF_HOST_MEMORY", VK_ERROR_OUT_OF_HOST_MEMORY},
    {"VK_ERROR_OUT_OF_DEVICE_MEMORY", VK_ERROR_OUT_OF_DEVICE_MEMORY},
    {"VK_ERROR_INITIALIZATION_FAILED", VK_ERROR_INITIALIZATION_FAILED},
    {"VK_ERROR_DEVICE_LOST", VK_ERROR_DEVICE_LOST},
    {"VK_ERROR_MEMORY_MAP_FAILED", VK_ERROR_MEMORY_MAP_FAILED},
    {"VK_ERROR_LAYER_NOT_PRESENT", VK_ERROR_LAYER_NOT_PRESENT},
    {"VK_ERROR_EXTENSION_NOT_PRESENT", VK_ERROR_EXTENSION_NOT_PRESENT},
    {"VK_ERROR_FEATURE_NOT_PRESENT", VK_ERROR_FEATURE_NOT_PRESENT},
    {"VK_ERROR_INCOMPATIBLE_DRIVER", VK_ERROR_INCOMPATIBLE_DRIVER},
    {"VK_ERROR_TOO_MANY_OBJECTS", VK_ERROR_TOO_MANY_OBJECTS},
    {"VK_ERROR_FRAGMENTED_POOL", VK_ERROR_FRAGMENTED_POOL},
    {"VK_ERROR_OUT_OF_POOL_MEMORY", VK_ERROR_OUT_OF_POOL_MEMORY},
    {"VK_ERROR_INVALID_EXTERNAL_HANDLE", VK_ERROR_INVALID_EXTERNAL_HANDLE},
    {"VK_ERROR_FRAGMENTATION", VK_ERROR_FRAGMENTATION},
    {"VK_ERROR_FRAGMENTATION_EXT", VK_ERROR_FRAGMENTATION},
    {"VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS", VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS},
    {"VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS_KHR", VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS},
    {"VK_ERROR_INVALID_SHADER_NV", VK_ERROR_INVALID_SHADER_NV},
    {"VK_ERROR_UNKNOWN", VK_ERROR_UNKNOWN},
    {"VK_ERROR_VALIDATION_FAILED", VK_ERROR_VALIDATION_FAILED_EXT}};

/// Error results by command, as the registry lists them.
std::map<std::string, std::set<std::string>> read_registry() {
  const std::string xml = read_file(kRegistry);
  // The command's own name is in its prototype, after the list of its results.
  static const std::regex command("errorcodes=\"([^\"]*)\"[^>]*>\\s*<proto>[^\\n]*<name>(\\w+)");
  std::map<std::string, std::set<std::string>> out;
  for (std::sregex_iterator it(xml.begin(), xml.end(), command), end; it != end; ++it) {
    std::istringstream codes((*it)[1]);
    for (std::string code; std::getline(codes, code, ',');) out[(*it)[2]].insert(code);
  }
  return out;
}

TEST(VulkanFallibleCalls, EachListsWhatTheSpecificationLists) {
  if (!fs::exists(kRegistry)) GTEST_SKIP() << "no registry at " << kRegistry;
  const auto registry = read_registry();
  ASSERT_GT(registry.size(), 100u);
  for (const vulkan::FallibleCall& call : vulkan::fallible_calls()) {
    const auto found = registry.find(std::string(call.name));
    ASSERT_NE(found, registry.end()) << call.name;
    for (const std::string& code : found->second) {
      const auto value = kValues.find(code);
      ASSERT_NE(value, kValues.end()) << call.name << " lists " << code;
      EXPECT_NE(std::ranges::find(call.results, value->second), call.results.end())
          << call.name << " lacks " << code;
    }
  }
}

// Calls through the checked path, by their names there.
TEST(VulkanFallibleCalls, EveryCheckedCallIsListed) {
  static const std::regex named("\\bcall\\(\\s*\"(vk\\w+)\"");
  std::set<std::string> calls;
  for (const auto& file : fs::recursive_directory_iterator(source_dir() / "runtime")) {
    if (!file.is_regular_file()) continue;
    const std::string text = read_file(file.path());
    for (std::sregex_iterator it(text.begin(), text.end(), named), end; it != end; ++it)
      calls.insert((*it)[1]);
  }
  ASSERT_GT(calls.size(), 25u);
  for (const std::string& call : calls) {
    EXPECT_NE(std::ranges::find(vulkan::fallible_calls(), call, &vulkan::FallibleCall::name),
              vulkan::fallible_calls().end())
        << call;
  }
}

}  // namespace
}  // namespace topograd::test
