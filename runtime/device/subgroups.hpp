// Features of a device's subgroups beyond arithmetic.
#pragma once

#include "device.hpp"

namespace topograd::runtime::vulkan {

/// True if compute shaders have subgroupBallot() and subgroupShuffle(); false if masked.
bool has_subgroup_shuffle(const Device& device);

}  // namespace topograd::runtime::vulkan
