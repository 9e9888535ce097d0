// Kernels on rows of numbers on a device.
#pragma once

#include "../../rows/rows.hpp"
#include "../device.hpp"
#include "launch.hpp"

#include <memory>

namespace topograd::runtime::vulkan {

/// Runs generated kernels on rows of numbers on a device.
std::unique_ptr<RowRunner> make_row_runner(LaunchContext context);
/// Makes a runner. Throws the errors of make_launch_context().
std::unique_ptr<RowRunner> make_row_runner(const std::shared_ptr<Device>& device,
                                           Precision precision);

}  // namespace topograd::runtime::vulkan
