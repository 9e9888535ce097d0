// What subgroups of a device can do beyond arithmetic.
#pragma once

#include "device.hpp"

namespace topograd::runtime::vulkan {

/// subgroupBallot() and subgroupShuffle() in compute. False where subgroups are masked.
bool has_subgroup_shuffle(const Device& device);

}  // namespace topograd::runtime::vulkan
