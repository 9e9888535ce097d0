// The backends that run the kernels of an engine.
#pragma once

#include <string_view>

namespace topograd::runtime {

enum class Backend { cpu, vulkan };

/// Name in reports: "cpu" or "vulkan".
constexpr std::string_view name(Backend backend) {
  switch (backend) {
    case Backend::cpu: return "cpu";
    case Backend::vulkan: return "vulkan";
  }
  return "";
}

}  // namespace topograd::runtime
