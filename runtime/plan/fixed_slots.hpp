// Fixed parts of a batch: slots whose scalars are all fixed, and blocks that need no sums.
#pragma once

#include "plan.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

struct FixedSlots {
  std::vector<std::uint32_t> slots;  ///< slots whose scalars are fixed in all instances, ascending
  std::uint64_t entries = 0;         ///< instances x groups
  std::uint64_t left_out = 0;        ///< entries of blocks that are completely fixed
};

/// Finds the fixed parts.
/// Cost: one pass over the index columns.
///
///   groups    of the batch (find_groups)
///   constant  by scalar; 1 = fixed
FixedSlots find_fixed_slots(const ir::Batch& batch, std::span<const SlotGroup> groups,
                            std::span<const ParameterArray> arrays,
                            std::span<const std::uint8_t> constant);

}  // namespace topograd::runtime
