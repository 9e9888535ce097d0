// Information about this machine's devices.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace topograd::command {

/// One object per device, with features, limits and accumulation strategies; an object with "error"
/// if Vulkan is unusable.
nlohmann::ordered_json describe_devices();

/// Folder and contents of the disk cache: shaders, pipeline caches, measured strategies.
nlohmann::ordered_json describe_cache();

/// The checks of `topograd doctor`: objects with "name", "state" ("ok", "without" or, for a
/// requirement, "missing"), "detail", and "advice" where the detail does not say it.
nlohmann::ordered_json run_doctor(const std::string& device);

/// Pending messages of the validation layers, one line each; empty without validation.
std::string validation_report();

}  // namespace topograd::command
