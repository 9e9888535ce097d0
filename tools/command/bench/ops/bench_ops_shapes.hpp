// Operations at fixed shapes, those that docs/tensors.md has figures of.
#pragma once

#include "../../../../ops/backend/device.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>

namespace topograd::command {

/// A row for each: shape, count (numbers that it reads), us by the device's clock (on the CPU by
/// the host's), wall_us, gb_s of what must be read and written once, or gmadd_s. `most` leaves out
/// shapes of more numbers.
nlohmann::ordered_json shape_rows(const ops::Device& device, int samples,
                                  std::optional<std::uint64_t> most);

}  // namespace topograd::command
