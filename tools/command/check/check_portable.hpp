// topograd check repeat --portable.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace topograd::command {

/// Solves the portable problems with all instruction sets of this processor, with one thread and
/// two, evaluates them on the device if there is one, and compares all bits with the stored ones.
///
///   device  index or name of a Vulkan device; empty: as usual
nlohmann::ordered_json portable_report(const std::string& device);
std::string portable_text(const nlohmann::ordered_json& report);

}  // namespace topograd::command
