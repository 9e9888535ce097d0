// Columns of stored Jacobians, by groups of slots.
#include "jacobian_columns.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {

JacobianColumns jacobian_columns(const TermShape& shape) {
  const std::vector<std::uint32_t> stored = slots_of(shape, Pass::stored_jacobian);
  JacobianColumns out{.count = static_cast<std::uint32_t>(stored.size())};
  for (const SlotGroup& group : shape.groups) {
    out.by_group.resize(out.by_group.size() + codegen::kMaxBlockWidth, JacobianColumns::kNone);
    std::uint32_t* const columns = &out.by_group.back() + 1 - codegen::kMaxBlockWidth;
    for (std::size_t k = 0; k < group.slots.size(); ++k) {
      const auto at = std::ranges::lower_bound(stored, group.slots[k]);
      if (at != stored.end() && *at == group.slots[k])
        columns[group.coordinates[k]] = static_cast<std::uint32_t>(at - stored.begin());
    }
  }
  return out;
}

bool jacobian_fits(const Context& context, const DeviceTerm& term) {
  return term.terms_fit() &&
         term.stored_size(Pass::stored_jacobian) * context.element_bytes() <= context.max_range();
}

}  // namespace topograd::runtime::vulkan
