// Kernels of operations on arrays and tensors, as a device is asked for them.
#pragma once

#include <topograd/runtime/kernel_listing.hpp>

#include <string>
#include <vector>

namespace topograd::command {

/// What an operation that `bench --ops` times runs on a device, on a thousand and on a hundred
/// thousand elements; of all of them, and of training a network, for "all".
///
///   device  index or name; empty: the one that TOPOGRAD_DEVICE names, else the best
///
/// Throws Error{InvalidArgument} for an operation that there is not (says which there are), and
/// what opening a device throws.
std::vector<runtime::ListedKernel> operation_kernels(const std::string& operation,
                                                     const std::string& device);

}  // namespace topograd::command
