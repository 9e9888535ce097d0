// Internal: what kernels share that reach elements through indices.
#pragma once

#include "../run/slice.hpp"

#include <cstddef>
#include <cstdint>

namespace topograd::ops {

/// Throws Error{OutOfDeviceMemory} if the device cannot bind all of what indices reach, which
/// cannot be cut in pieces.
void check_reached(const char* call, const Backend& backend, const Slice& slice);

/// Invocations of a workgroup.
std::uint32_t index_workgroup(const Backend& backend);

/// Items of one launch, whose bindings begin at whole chunks.
///
///   widest  bytes of an item in the widest of them
std::uint64_t index_chunk(const Backend& backend, std::size_t widest);

}  // namespace topograd::ops
