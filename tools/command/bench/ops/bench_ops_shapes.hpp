// Operations at the fixed shapes of docs/tensors.md.
#pragma once

#include "../../../../ops/backend/device.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>

namespace topograd::command {

/// One row per shape: shape, count (numbers read), us by the device's clock (on the CPU by the
/// host's), wall_us, gb_s for the numbers that must be read and written once, or gmadd_s. Shapes
/// with more than `most` numbers are skipped.
nlohmann::ordered_json shape_rows(const ops::Device& device, int samples,
                                  std::optional<std::uint64_t> most);

}  // namespace topograd::command
