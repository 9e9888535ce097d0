// A recorded command list of an engine.
#pragma once

#include "../../device/command.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan {

struct Recorded {
  CommandList list;
  std::uint64_t kernels = 0;  ///< dispatches of residual kernels
};

}  // namespace topograd::runtime::vulkan
