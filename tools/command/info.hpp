// What the command knows of this machine's devices.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace topograd::command {

/// One object a device, with features, limits and the rungs of the accumulation ladder; an object
/// with "error" where Vulkan cannot be used.
nlohmann::ordered_json describe_devices();

/// Folder of the disk cache and what it holds: shaders, pipeline caches, measured accumulations.
nlohmann::ordered_json describe_cache();

/// The checks of `topograd doctor` as lines; `ok` says whether everything needed is there.
std::string run_doctor(const std::string& device, bool& ok);

/// Messages of the validation layers that nothing else has taken, one line each; empty without
/// validation.
std::string validation_report();

}  // namespace topograd::command
