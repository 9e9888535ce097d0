// Columns of stored Jacobians.
#pragma once

#include "../terms/device_term.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime::vulkan {

/// Columns of Pass::stored_jacobian: how many there are, and which one is coordinate c of group g
/// of slots, at g * kMaxBlockWidth + c; kNone where nothing is differentiated by it.
struct JacobianColumns {
  static constexpr std::uint32_t kNone = ~0u;
  std::uint32_t count = 0;
  std::vector<std::uint32_t> by_group;
};
JacobianColumns jacobian_columns(const TermShape& shape);

/// True if the Jacobian can be stored in one range, instances in one piece.
bool jacobian_fits(const Context& context, const DeviceTerm& term);

}  // namespace topograd::runtime::vulkan
