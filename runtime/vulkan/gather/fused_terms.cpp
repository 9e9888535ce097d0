// Small terms that are evaluated in the kernel of another term's product, without a dispatch of
// their own.
#include "fused_terms.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Blocks to an entry: with fewer of them, most invocations would take the detour.
constexpr std::uint64_t kBlocksOfEntry = 8;

}  // namespace

bool FusedTerms::can_fuse(const GatherSet& set, const Model& model) {
  return set.array() != kScalars && set.can_fuse() && !set.view().batch->has_resident() &&
         set.entries() * kBlocksOfEntry < model.arrays[set.array()].blocks;
}

FusedTerms::FusedTerms(Context& context, std::span<const GatherSet* const> sets, const Model& model)
    : context_(context), block_width_(sets[0]->block_width()) {
  for (const GatherSet* set : sets) add(*set, model);
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.block, a.block_slot) < std::pair(b.block, b.block_slot);
  });
  upload_blocks(model.arrays[sets[0]->array()].blocks);
  upload_indices();
  refresh_data();
}

void FusedTerms::add(const GatherSet& set, const Model& model) {
  // The general layout: a few columns more cost nothing here, and a kernel fits any instances.
  TermShape shape = set.view().shape;
  shape.layout = codegen::general_layout(shape.topology->program.leaves);
  const ir::Batch& batch = *set.view().batch;
  for (const GatherPlan& plan : invert(batch, shape.groups, model.arrays, model.scalars)) {
    if (plan.array != set.array()) continue;
    const auto first = static_cast<std::uint32_t>(block_slots_.size());
    const std::size_t block_slots = plan.block_slots.size();
    for (std::uint32_t group : plan.block_slots) block_slots_.push_back({shape, &batch, group});
    for (std::size_t k = 0; k + 1 < plan.starts.size(); ++k) {
      const auto block_slot = first + static_cast<std::uint32_t>(k % block_slots);
      for (std::uint32_t e = plan.starts[k]; e < plan.starts[k + 1]; ++e) {
        entries_.push_back({plan.blocks[k / block_slots], block_slot, plan.instances[e]});
      }
    }
  }
}

void FusedTerms::upload_blocks(std::uint64_t blocks) {
  std::vector<std::uint32_t> words((blocks + 31) / 32 * 2, 0), starts;
  std::uint32_t items = 0;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const Entry& entry = entries_[e];
    if (e == 0 || entries_[e - 1].block != entry.block) {
      words[2 * (entry.block / 32)] |= 1u << (entry.block % 32);
      starts.resize((std::size_t{++items}) * block_slots_.size(), 0);
    }
    ++starts[(items - 1) * block_slots_.size() + entry.block_slot];
  }
  starts.push_back(0);
  std::exclusive_scan(starts.begin(), starts.end(), starts.begin(), 0u);
  std::uint32_t before = 0;
  for (std::size_t k = 0; k < words.size(); k += 2) {
    words[k + 1] = before;
    before += static_cast<std::uint32_t>(std::popcount(words[k]));
  }
  blocks_ = make_buffer(context_, words, "fused_owners");
  starts_ = make_buffer(context_, starts, "fused_starts");
}

void FusedTerms::upload_indices() {
  std::vector<EntryColumns> columns;
  std::uint32_t most = 0;
  for (const BlockSlot& block_slot : block_slots_) {
    columns.push_back(
        entry_columns(block_slot.shape.layout, block_slot.shape.groups[block_slot.group]));
    most = std::max(most, columns.back().layout.index_columns);
  }
  const std::size_t n = entries_.size();
  std::vector<std::uint32_t> index(std::size_t{most} * n, 0);
  for (std::size_t e = 0; e < n; ++e) {
    const Entry& entry = entries_[e];
    const std::vector<std::uint32_t>& stored = columns[entry.block_slot].index_columns;
    for (std::size_t c = 0; c < stored.size(); ++c) {
      // In the general layout, stored columns are the batch's.
      index[c * n + e] = block_slots_[entry.block_slot].batch->index(entry.instance, stored[c]);
    }
  }
  index_ = make_buffer(context_, index, "fused_index");
}

void FusedTerms::refresh_data() {
  std::uint32_t most = 0;
  for (const BlockSlot& block_slot : block_slots_)
    most = std::max(most, block_slot.shape.layout.data_columns);
  const std::size_t n = entries_.size();
  std::vector<double> data(std::size_t{most} * n, 0.0);
  for (std::size_t e = 0; e < n; ++e) {
    const BlockSlot& block_slot = block_slots_[entries_[e].block_slot];
    for (std::uint32_t c = 0; c < block_slot.shape.layout.data_columns; ++c) {
      data[c * n + e] = block_slot.batch->data(entries_[e].instance, c);
    }
  }
  if (!data_) data_ = make_numbers(context_, data.size(), "fused_data");
  if (!data.empty()) write_numbers(context_, data_, data);
}

std::vector<codegen::GatherSlot> FusedTerms::block_slots(Pass pass) const {
  std::vector<codegen::GatherSlot> made;
  for (const BlockSlot& block_slot : block_slots_) {
    made.push_back(gather_slot(block_slot.shape, pass, block_slot.group, block_width_));
    made.back().is_fused = true;
  }
  return made;
}

void FusedTerms::bind(BindingTable& table) const {
  table.set(BufferRole::fused_owners, blocks_);
  table.set(BufferRole::fused_starts, starts_);
  table.set(BufferRole::fused_index_columns, index_);
  table.set(BufferRole::fused_data_columns, data_);
}

}  // namespace topograd::runtime::vulkan
