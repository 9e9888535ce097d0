// Internal: common parts of kernels that access elements through indices.
#pragma once

#include "../run/storage.hpp"

#include <cstddef>
#include <cstdint>

namespace topograd::ops {

/// Throws Error{OutOfDeviceMemory} if the device cannot bind the whole slice, because accesses
/// through indices cannot be divided.
void check_reached(const char* call, const OpBackend& backend, const Slice& slice);

/// Invocations per workgroup.
std::uint32_t index_workgroup(const OpBackend& backend);

/// Items per launch, so that bindings begin at whole chunks.
///
///   widest  bytes of an item in the widest binding
std::uint64_t index_chunk(const OpBackend& backend, std::size_t widest);

}  // namespace topograd::ops
