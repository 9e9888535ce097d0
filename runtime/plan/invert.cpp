// Inversion of index columns: for every block, the instances that touch it.
#include "plan.hpp"

#include "../../ir/machine/parallel.hpp"
#include "partition.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace topograd::runtime {
namespace {

/// One entry before sorting: its block, block slot and instance.
struct BlockEntry {
  std::uint32_t block;
  std::uint32_t block_slot;
  std::uint32_t instance;
};

/// Entries grouped by block and block slot: key = block * block_slots + block_slot.
struct Sorted {
  std::vector<std::uint32_t> blocks;     // blocks with entries, ascending
  std::vector<std::uint32_t> starts;     // blocks * block_slots + 1
  std::vector<std::uint32_t> instances;  // by entry, ascending in each (block, block slot)
};

class Inverter {
 public:
  Inverter(const ir::Batch& batch, std::span<const SlotGroup> groups, GatherPlan& plan,
           std::uint64_t blocks)
      : batch_(batch), groups_(groups), plan_(plan), blocks_(blocks) {}

  Sorted sort() const {
    const std::uint64_t entries = batch_.size() * plan_.block_slots.size();
    return entries * 8 < blocks_ ? sort_few() : sort_many();
  }

 private:
  Sorted sort_few() const {
    std::vector<BlockEntry> entries;
    std::vector<std::uint32_t> blocks(batch_.size());
    for (std::uint32_t block_slot = 0; block_slot < plan_.block_slots.size(); ++block_slot) {
      copy_blocks(block_slot, 0, blocks);
      for (std::uint32_t i = 0; i < blocks.size(); ++i)
        entries.push_back({blocks[i], block_slot, i});
    }
    std::stable_sort(entries.begin(), entries.end(), [](const BlockEntry& a, const BlockEntry& b) {
      return std::pair(a.block, a.block_slot) < std::pair(b.block, b.block_slot);
    });
    Sorted sorted;
    const auto block_slots = plan_.block_slots.size();
    for (const BlockEntry& e : entries) {
      if (sorted.blocks.empty() || sorted.blocks.back() != e.block) {
        sorted.blocks.push_back(e.block);
        sorted.starts.resize(sorted.blocks.size() * block_slots, 0);
      }
      ++sorted.starts[(sorted.blocks.size() - 1) * block_slots + e.block_slot];
      sorted.instances.push_back(e.instance);
    }
    sorted.starts.push_back(0);
    std::exclusive_scan(sorted.starts.begin(), sorted.starts.end(), sorted.starts.begin(), 0u);
    return sorted;
  }

  Sorted sort_many() const {
    const auto block_slots = static_cast<std::uint32_t>(plan_.block_slots.size());
    const Partition<> by_key = by_block_and_block_slot();
    std::vector<std::uint32_t> starts(blocks_ * block_slots + 1, 0);
    by_key.each_bucket([&](std::span<const Keyed> items, std::size_t first_item,
                           std::uint32_t first, std::uint32_t beyond) {
      for (const Keyed& item : items) ++starts[item.key + 1];
      // Starts of the next bucket's first key are this one's end.
      auto at = static_cast<std::uint32_t>(first_item);
      for (std::uint32_t key = first; key < beyond; ++key) at = starts[key + 1] += at;
    });
    Sorted sorted;
    sorted.instances.resize(starts.back());
    by_key.each_bucket(
        [&](std::span<const Keyed> items, std::size_t, std::uint32_t first, std::uint32_t beyond) {
          std::vector<std::uint32_t> next(starts.begin() + first, starts.begin() + beyond);
          for (const Keyed& item : items) sorted.instances[next[item.key - first]++] = item.value;
        });
    bool all = true;
    for (std::uint64_t block = 0; all && block < blocks_; ++block) {
      all = starts[block * block_slots] != starts[(block + 1) * block_slots];
    }
    if (all) {
      sorted.blocks.resize(blocks_);
      std::iota(sorted.blocks.begin(), sorted.blocks.end(), 0u);
      sorted.starts = std::move(starts);
      return sorted;
    }
    for (std::uint64_t block = 0; block < blocks_; ++block) {
      if (starts[block * block_slots] == starts[(block + 1) * block_slots]) continue;
      sorted.blocks.push_back(static_cast<std::uint32_t>(block));
      sorted.starts.insert(sorted.starts.end(), &starts[block * block_slots],
                           &starts[block * block_slots] + block_slots);
    }
    sorted.starts.push_back(starts.back());
    return sorted;
  }

  /// All entries, ascending by instance for each key, block * block_slots + block_slot.
  Partition<> by_block_and_block_slot() const {
    const auto block_slots = static_cast<std::uint32_t>(plan_.block_slots.size());
    const auto emit = [&](std::size_t first, std::size_t count, auto sink) {
      std::vector<std::uint32_t> blocks(ir::Batch::kBlockRows);
      for (std::size_t at = first; at < first + count; at += blocks.size()) {
        blocks.resize(std::min(ir::Batch::kBlockRows, first + count - at));
        for (std::uint32_t block_slot = 0; block_slot < block_slots; ++block_slot) {
          copy_blocks(block_slot, at, blocks);
          for (std::size_t i = 0; i < blocks.size(); ++i)
            sink(Keyed{blocks[i] * block_slots + block_slot, static_cast<std::uint32_t>(at + i)});
        }
      }
    };
    return Partition<>(batch_.size(), static_cast<std::uint32_t>(blocks_ * block_slots), emit);
  }

  /// Blocks of instances from `first` on, in a block slot.
  void copy_blocks(std::uint32_t block_slot, std::size_t first,
                   std::span<std::uint32_t> blocks) const {
    const SlotGroup& group = groups_[plan_.block_slots[block_slot]];
    const auto base = static_cast<std::uint32_t>(plan_.x_first + group.coordinates[0]);
    batch_.copy_index_column(group.slots[0], first, blocks);
    for (std::uint32_t& block : blocks) block = (block - base) / plan_.block_width;
  }

  const ir::Batch& batch_;
  std::span<const SlotGroup> groups_;
  GatherPlan& plan_;
  std::uint64_t blocks_;
};

/// Removes blocks whose `width` scalars from x_first + block * width on are all fixed. Returns the
/// number of blocks, with or without entries.
std::uint64_t leave_out(Sorted& sorted, const GatherPlan& plan, std::uint64_t blocks,
                        std::span<const std::uint8_t> constant) {
  const auto fixed = [&](std::uint64_t block) {
    const auto scalars =
        constant.subspan(plan.x_first + block * plan.block_width, plan.block_width);
    return std::ranges::all_of(scalars, [](std::uint8_t c) { return c != 0; });
  };
  const std::size_t block_slots = plan.block_slots.size();
  Sorted kept;
  for (std::size_t k = 0; k < sorted.blocks.size(); ++k) {
    if (fixed(sorted.blocks[k])) continue;
    const std::uint32_t first = sorted.starts[k * block_slots];
    const auto shift = static_cast<std::uint32_t>(kept.instances.size()) - first;
    kept.blocks.push_back(sorted.blocks[k]);
    for (std::size_t r = 0; r < block_slots; ++r)
      kept.starts.push_back(sorted.starts[k * block_slots + r] + shift);
    kept.instances.insert(kept.instances.end(), sorted.instances.begin() + first,
                          sorted.instances.begin() + sorted.starts[(k + 1) * block_slots]);
  }
  kept.starts.push_back(static_cast<std::uint32_t>(kept.instances.size()));
  sorted = std::move(kept);
  std::uint64_t moving = 0;
  for (std::uint64_t block = 0; block < blocks; ++block) moving += fixed(block) ? 0 : 1;
  return moving;
}

/// Splits blocks into work items and lists how partial sums are combined.
class Cutter {
 public:
  Cutter(Sorted sorted, GatherPlan& plan) : sorted_(std::move(sorted)), plan_(plan) {}

  void cut() {
    if (all_are_light()) {
      plan_.light_items = plan_.direct_items = static_cast<std::uint32_t>(sorted_.blocks.size());
      plan_.blocks = sorted_.blocks;
      plan_.outputs = std::move(sorted_.blocks);
      plan_.starts = std::move(sorted_.starts);
      plan_.instances = std::move(sorted_.instances);
      return;
    }
    reserve(sorted_.blocks.size());
    add_whole_blocks(0, kLightBlock);
    plan_.light_items = static_cast<std::uint32_t>(plan_.blocks.size());
    add_whole_blocks(kLightBlock, kSegment);
    plan_.direct_items = static_cast<std::uint32_t>(plan_.blocks.size());
    add_heavy_blocks();
    plan_.starts.push_back(entries_);
    copy_instances();
    combine();
  }

 private:
  void reserve(std::size_t items) {
    plan_.blocks.reserve(items);
    plan_.outputs.reserve(items);
    plan_.starts.reserve(items * block_slots() + 1);
    from_.reserve(items * block_slots());
  }
  std::uint32_t entries_of(std::size_t k) const {
    return sorted_.starts[(k + 1) * block_slots()] - sorted_.starts[k * block_slots()];
  }
  std::size_t block_slots() const { return plan_.block_slots.size(); }
  bool all_are_light() const {
    for (std::size_t k = 0; k < sorted_.blocks.size(); ++k) {
      if (entries_of(k) > kLightBlock) return false;
    }
    return true;
  }

  /// Adds one item for each block with more than `above` and at most `most` entries.
  void add_whole_blocks(std::uint32_t above, std::uint32_t most) {
    for (std::size_t k = 0; k < sorted_.blocks.size(); ++k) {
      const std::uint32_t n = entries_of(k);
      if (n > above && n <= most) add_item(k, sorted_.blocks[k], 0, n);
    }
  }

  void add_heavy_blocks() {
    for (std::size_t k = 0; k < sorted_.blocks.size(); ++k) {
      const std::uint32_t n = entries_of(k);
      if (n <= kSegment) continue;
      heavy_first_.push_back(plan_.partials);
      heavy_block_.push_back(sorted_.blocks[k]);
      const std::uint32_t length = segment_length(n);
      for (std::uint32_t first = 0; first < n; first += length) {
        add_item(k, plan_.partials++, first, std::min(n, first + length));
      }
    }
    heavy_first_.push_back(plan_.partials);
  }

  /// Length of segments: as few as possible, of about equal length.
  static std::uint32_t segment_length(std::uint32_t entries) {
    const std::uint32_t segments = (entries + kSegment - 1) / kSegment;
    return (entries + segments - 1) / segments;
  }

  /// Adds an item for entries [begin, end) of block k, counted over its block slots; each block
  /// slot's part keeps its range.
  void add_item(std::size_t k, std::uint32_t output, std::uint32_t begin, std::uint32_t end) {
    plan_.blocks.push_back(sorted_.blocks[k]);
    plan_.outputs.push_back(output);
    const std::uint32_t base = sorted_.starts[k * block_slots()];
    for (std::size_t r = 0; r < block_slots(); ++r) {
      const std::uint32_t low = sorted_.starts[k * block_slots() + r] - base;
      const std::uint32_t high = sorted_.starts[k * block_slots() + r + 1] - base;
      const std::uint32_t first = std::max(low, begin), beyond = std::min(high, end);
      plan_.starts.push_back(entries_);
      from_.push_back(base + first);
      entries_ += beyond > first ? beyond - first : 0;
    }
  }

  void copy_instances() {
    plan_.instances.resize(entries_);
    constexpr std::size_t kGrain = 1 << 12;
    ir::parallel_pieces(from_.size(), kGrain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = begin; k < end; ++k) {
        const std::uint32_t count = plan_.starts[k + 1] - plan_.starts[k];
        std::copy_n(sorted_.instances.begin() + from_[k], count,
                    plan_.instances.begin() + plan_.starts[k]);
      }
    });
  }

  void combine() {
    while (!heavy_block_.empty()) {
      GatherPlan::Level inner, last{.to_blocks = true};
      std::vector<std::uint32_t> next_first, next_block;
      for (std::size_t k = 0; k < heavy_block_.size(); ++k) {
        const std::uint32_t first = heavy_first_[k], end = heavy_first_[k + 1];
        if (end - first <= kSegment) {
          last.first.insert(last.first.end(), {first, end});
          last.target.push_back(heavy_block_[k]);
          continue;
        }
        next_first.push_back(plan_.partials);
        next_block.push_back(heavy_block_[k]);
        const std::uint32_t length = segment_length(end - first);
        for (std::uint32_t at = first; at < end; at += length) {
          inner.first.insert(inner.first.end(), {at, std::min(end, at + length)});
          inner.target.push_back(plan_.partials++);
        }
      }
      next_first.push_back(plan_.partials);
      if (!last.target.empty()) plan_.levels.push_back(std::move(last));
      if (!inner.target.empty()) plan_.levels.push_back(std::move(inner));
      heavy_first_ = std::move(next_first);
      heavy_block_ = std::move(next_block);
    }
  }

  Sorted sorted_;
  GatherPlan& plan_;
  std::vector<std::uint32_t> from_;  // by item and block slot: its first entry in sorted_
  std::uint32_t entries_ = 0;
  std::vector<std::uint32_t> heavy_first_, heavy_block_;
};

/// Sorts terms by scalar, in the order of slots and instances.
Sorted sort_terms(const ir::Batch& batch, std::span<const std::uint32_t> slots,
                  std::uint64_t scalars) {
  const std::size_t rows = batch.size();
  std::vector<std::uint32_t> next(scalars + 1, 0), column(rows);
  for (const std::uint32_t slot : slots) {
    batch.copy_index_column(slot, 0, column);
    for (const std::uint32_t index : column) ++next[index];
  }
  Sorted sorted;
  std::uint32_t entries = 0;
  for (std::uint64_t scalar = 0; scalar < scalars; ++scalar) {
    const std::uint32_t count = std::exchange(next[scalar], entries);
    if (count == 0) continue;
    sorted.blocks.push_back(static_cast<std::uint32_t>(scalar));
    sorted.starts.push_back(entries);
    entries += count;
  }
  sorted.starts.push_back(entries);
  sorted.instances.resize(entries);
  for (std::size_t k = 0; k < slots.size(); ++k) {
    batch.copy_index_column(slots[k], 0, column);
    for (std::size_t i = 0; i < rows; ++i)
      sorted.instances[next[column[i]]++] = static_cast<std::uint32_t>(k * rows + i);
  }
  return sorted;
}

}  // namespace

std::vector<GatherPlan> invert_terms(const ir::Batch& batch, std::span<const std::uint32_t> slots,
                                     std::uint64_t scalars,
                                     std::span<const std::uint8_t> constant) {
  GatherPlan plan{.array = kScalars, .block_slots = {0}, .of_terms = true};
  Sorted sorted = sort_terms(batch, slots, scalars);
  std::uint64_t blocks = scalars;
  if (!constant.empty()) blocks = leave_out(sorted, plan, blocks, constant);
  plan.covers_all = sorted.blocks.size() == blocks;
  Cutter(std::move(sorted), plan).cut();
  if (plan.blocks.empty()) return {};
  return {std::move(plan)};
}

std::vector<GatherPlan> invert(const ir::Batch& batch, std::span<const SlotGroup> groups,
                               std::span<const ParameterArray> arrays, std::uint64_t scalars,
                               std::span<const std::uint8_t> constant) {
  std::vector<GatherPlan> plans;
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const std::uint32_t array = groups[g].array;
    auto plan = std::find_if(plans.begin(), plans.end(), [&](auto& p) { return p.array == array; });
    if (plan == plans.end()) plan = plans.insert(plans.end(), GatherPlan{.array = array});
    plan->block_slots.push_back(g);
  }
  for (GatherPlan& plan : plans) {
    const bool single = plan.array == kScalars;
    plan.x_first = single ? 0 : arrays[plan.array].offset;
    plan.block_width = single ? 1 : arrays[plan.array].width;
    std::uint64_t blocks = single ? scalars : arrays[plan.array].blocks;
    Sorted sorted = Inverter(batch, groups, plan, blocks).sort();
    if (!constant.empty()) blocks = leave_out(sorted, plan, blocks, constant);
    plan.covers_all = sorted.blocks.size() == blocks;
    Cutter(std::move(sorted), plan).cut();
  }
  std::erase_if(plans, [](const GatherPlan& plan) { return plan.blocks.empty(); });
  return plans;
}

}  // namespace topograd::runtime
