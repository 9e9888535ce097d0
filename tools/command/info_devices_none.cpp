// Devices in builds without Vulkan: none.
#include "info.hpp"
#include "solve/progress.hpp"

#include <nlohmann/json.hpp>

namespace topograd::command {

nlohmann::ordered_json describe_devices() {
  return {{"error", "this build has no Vulkan (TOPOGRAD_VULKAN=OFF)"}};
}

nlohmann::ordered_json describe_cache() { return {{"off", "nothing is compiled"}}; }

nlohmann::ordered_json run_doctor(const std::string&) {
  const nlohmann::ordered_json check = {{"name", "vulkan"},
                                        {"state", "missing"},
                                        {"detail", "this build has no Vulkan"},
                                        {"advice", "configure with -DTOPOGRAD_VULKAN=ON"}};
  return nlohmann::ordered_json::array({check});
}

std::uint64_t shaders_compiled() { return 0; }

std::string validation_report() { return ""; }

}  // namespace topograd::command
