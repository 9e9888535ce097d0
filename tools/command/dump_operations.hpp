// Kernels that devices run for operations on arrays and tensors: their sources, and their
// compilation before the first use.
#pragma once

#include "../../ops/backend/device.hpp"

#include "../../runtime/kernel_listing.hpp"

#include <cstdint>
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

/// Values of the same operations with 64 elements: the first ones of operands and results, and
/// those of the nodes of expressions (ops::OpOptions::values).
std::string operation_values(const std::string& operation, const ops::Device& device);

/// Kernels that were made for one operation.
struct WarmOperation {
  std::string operation;
  std::uint64_t compiled = 0, from_disk = 0;
  double seconds = 0;
  std::string problem;  ///< reason why the device cannot run it; empty otherwise
};

/// Runs the same operations on a device, so that their kernels are on disk. An operation of "all"
/// that the device does not support is a row with the reason; for the CPU there are no rows.
///
/// Throws Error{InvalidArgument} for an unknown operation, and for a single one what it throws.
std::vector<WarmOperation> warm_up_operations(const std::string& operation,
                                              const ops::Device& device);

}  // namespace topograd::command
