// Memory that is free at this moment.
#pragma once

#include <cstdint>

namespace topograd::platform {

/// Bytes that the system can give without swapping, now; 0 where it does not say.
std::uint64_t available_memory_bytes();

}  // namespace topograd::platform
