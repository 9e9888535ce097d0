// Memory that is free at this moment.
#pragma once

#include <cstdint>

namespace topograd::platform {

/// Bytes that the system can give now without swapping; 0 if it does not say.
std::uint64_t available_memory_bytes();
/// True if the system gives this many bytes of address space at once; `ulimit -v` limits them.
bool has_address_space(std::uint64_t bytes);

}  // namespace topograd::platform
