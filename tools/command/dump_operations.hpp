// Kernels that devices run for operations on arrays and tensors.
#pragma once

#include "../../runtime/kernel_listing.hpp"

#include <string>
#include <vector>

namespace topograd::command {

/// Kernels that an operation of `bench ops` runs on a device with a thousand and with a hundred
/// thousand elements; "all": those of all operations and of training a network.
///
///   device  index or name; empty: the device that TOPOGRAD_DEVICE names, else the best
///
/// Throws Error{InvalidArgument} for an unknown operation (lists the known ones), and
/// what opening a device throws.
std::vector<runtime::ListedKernel> operation_kernels(const std::string& operation,
                                                     const std::string& device);

}  // namespace topograd::command
