// Devices in builds without Vulkan: none.
#include "info.hpp"

#include <nlohmann/json.hpp>

namespace topograd::command {

nlohmann::ordered_json describe_devices() {
  return {{"error", "this build has no Vulkan (TOPOGRAD_VULKAN=OFF)"}};
}

nlohmann::ordered_json describe_cache() { return {{"off", "nothing is compiled"}}; }

std::string run_doctor(const std::string&, bool& ok) {
  ok = false;
  return "missing  vulkan: this build has no Vulkan; configure with -DTOPOGRAD_VULKAN=ON\n";
}

std::string validation_report() { return ""; }

}  // namespace topograd::command
