// What of a batch is constant: slots whose scalars all are, and blocks that need no sums.
#pragma once

#include "plan.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

struct Held {
  std::vector<std::uint32_t> slots;  ///< whose scalars are constant in all instances, ascending
  std::uint64_t entries = 0;         ///< instances x groups
  std::uint64_t left_out = 0;        ///< those of blocks that are constant as a whole
};

/// Cost: one pass over the index columns.
///
///   groups    of the batch (find_groups)
///   constant  by scalar; 1 = held constant
Held find_held(const ir::Batch& batch, std::span<const SlotGroup> groups,
               std::span<const ParameterArray> arrays, std::span<const std::uint8_t> constant);

}  // namespace topograd::runtime
