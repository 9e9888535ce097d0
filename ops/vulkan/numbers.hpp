// Internal: memory of a Vulkan backend as the data of problems.
#pragma once

#include "../backend/backend.hpp"

#include <cstdint>
#include <memory>

namespace topograd::ops {

/// OpBackend::numbers() of a Vulkan device.
std::shared_ptr<const ir::ResidentData> numbers_of(std::shared_ptr<OpBackend> backend,
                                                   std::shared_ptr<Memory> memory, Type type,
                                                   std::uint64_t count);

}  // namespace topograd::ops
