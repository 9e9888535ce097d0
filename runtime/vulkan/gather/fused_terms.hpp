// Small terms that are evaluated in the kernel of another term's product, without a dispatch of
// their own.
#pragma once

#include "gather_set.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Entries of small terms by block, for the blocks of one array: columns, and a bit for each block
/// that has any.
class FusedTerms {
 public:
  /// Most block slots that are fused into one kernel.
  static constexpr std::size_t kMostBlockSlots = 16;

  /// True if a set's entries are few beside the blocks of its array, and none of them has many.
  static bool can_fuse(const GatherSet& set, const Model& model);

  ///   sets  that can_fuse(), all of one array; what they view outlives this
  FusedTerms(Context& context, std::span<const GatherSet* const> sets, const Model& model);

  /// Block slots that they add to a kernel.
  std::vector<codegen::GatherSlot> block_slots(Pass pass) const;
  void bind(BindingTable& table) const;
  std::uint32_t stride() const { return static_cast<std::uint32_t>(entries_.size()); }
  /// Copies data columns again.
  void refresh_data();

 private:
  struct BlockSlot {
    TermShape shape;
    const ir::Batch* batch = nullptr;
    std::uint32_t group = 0;
  };
  struct Entry {
    std::uint32_t block = 0, block_slot = 0, instance = 0;
  };

  void add(const GatherSet& set, const Model& model);
  void upload_blocks(std::uint64_t blocks);
  void upload_indices();

  Context& context_;
  std::uint32_t block_width_ = 1;
  std::vector<BlockSlot> block_slots_;
  std::vector<Entry> entries_;  // by block, then by block slot
  Buffer blocks_, starts_, index_, data_;
};

}  // namespace topograd::runtime::vulkan
