// Search of a batch's index columns for fixed scalars and blocks.
#include "fixed_slots.hpp"

#include "../../ir/machine/parallel.hpp"

#include <algorithm>
#include <atomic>

namespace topograd::runtime {
namespace {

/// Number of rows of an index column that satisfy a test.
template <class Test>
std::uint64_t count_rows(const ir::Batch& batch, std::uint32_t column, Test test) {
  std::atomic<std::uint64_t> total = 0;
  const auto rows = tbb::blocked_range<std::size_t>(0, batch.size(), ir::Batch::kBlockRows);
  ir::parallel_for(rows, [&](const auto& range) {
    std::vector<std::uint32_t> block(range.size());
    batch.copy_index_column(column, range.begin(), block);
    total += static_cast<std::uint64_t>(std::ranges::count_if(block, test));
  });
  return total;
}

}  // namespace

FixedSlots find_fixed_slots(const ir::Batch& batch, std::span<const SlotGroup> groups,
                            std::span<const ParameterArray> arrays,
                            std::span<const std::uint8_t> constant) {
  FixedSlots fixed;
  for (const SlotGroup& group : groups) {
    const std::uint32_t width = group.array == kScalars ? 1 : arrays[group.array].width;
    const std::uint32_t coordinate = group.coordinates[0];
    fixed.entries += batch.size();
    fixed.left_out += count_rows(batch, group.slots[0], [&](std::uint32_t index) {
      const auto block = constant.subspan(index - coordinate, width);
      return std::ranges::all_of(block, [](std::uint8_t c) { return c != 0; });
    });
    for (const std::uint32_t slot : group.slots) {
      const auto is_fixed = [&](std::uint32_t index) { return constant[index] != 0; };
      if (count_rows(batch, slot, is_fixed) == batch.size()) fixed.slots.push_back(slot);
    }
  }
  std::ranges::sort(fixed.slots);
  return fixed;
}

}  // namespace topograd::runtime
