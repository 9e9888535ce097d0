// How kernels access a batch: its parameter slots in groups, the columns that are stored, and for
// each parameter block the entries that are summed for it, found by inverting the index columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../../codegen/kernel.hpp"
#include "../model/model.hpp"

namespace topograd::runtime {

/// Slots of a topology that are always in one parameter block: a block slot of the term.
struct SlotGroup {
  std::uint32_t array = 0;  ///< of Model::arrays; kScalars for blocks of one scalar
  std::vector<std::uint32_t> slots;
  std::vector<std::uint32_t> coordinates;  ///< of each slot in its block
};
inline constexpr std::uint32_t kScalars = ~0u;

/// A residual that touches more blocks is wide (is_wide): no kernel has code for each pair of its
/// blocks, or evaluates it once for each.
inline constexpr std::size_t kMostGroups = 24;

/// Groups the parameter slots of a batch. If a slot's array or coordinate differs between
/// instances, or if there would be more than kMostGroups, each of the batch's slots becomes a group
/// with single scalars as blocks (array == kScalars).
std::vector<SlotGroup> find_groups(const ir::Batch& batch, std::span<const ParameterArray> arrays);

/// True for a batch whose terms are stored and summed by one list of positions for each scalar
/// (invert_terms), for all slots together.
inline bool is_wide(std::span<const SlotGroup> groups) { return groups.size() > kMostGroups; }

/// Columns of a batch that need not be stored row by row. Kernels made for them stay valid for any
/// rows (codegen::ColumnLayout).
struct FlexibleColumns {
  std::vector<bool> index;  ///< by index column of the batch: base + step * row
  std::vector<bool> data;   ///< by data column: the same bits in all rows
  /// By group and index column: the same in all rows, or at a constant distance from the group.
  std::vector<std::vector<bool>> entries;

  /// Entries of a group; empty if nothing is flexible.
  std::vector<bool> of_group(std::size_t group) const {
    return group < entries.size() ? entries[group] : std::vector<bool>{};
  }
};
/// Finds flexible columns. Cost: at most one pass over the columns for each group, and one more; a
/// column that varies is recognised by its first rows.
FlexibleColumns find_flexible(const ir::Batch& batch, std::span<const SlotGroup> groups);

/// Makes one index column for each group of slots (a Vec3 costs one) and each uniform, and keeps
/// the data columns. Flexible columns, as many as a kernel's push constants have room for, come
/// last.
///
///   neighbours  this many of the last index columns read neighbouring uniforms (those of a loss)
///   and
///               share one column
codegen::ColumnLayout make_layout(const ir::LeafCounts& leaves, std::span<const SlotGroup> groups,
                                  const FlexibleColumns& flexible, std::uint32_t neighbours = 0);

/// Bytes of an instance's inflexible columns; `number` is the size of a number in a data column.
std::uint32_t stored_bytes(const codegen::ColumnLayout& layout, std::uint32_t number);

/// Blocks with more entries are summed by workgroups.
inline constexpr std::uint32_t kLightBlock = 64;
/// Blocks with more entries are summed in segments of at most this many.
inline constexpr std::uint32_t kSegment = 1024;

/// For every parameter block, the entries (instance, block slot) that read it, in a fixed order.
///
/// Work item w sums entries starts[w * block_slots + r] .. starts[w * block_slots + r + 1] of each
/// block slot r. Items of blocks with at most kLightBlock entries come first, each for one
/// invocation; each of the others is for a workgroup. Items of blocks with at most kSegment entries
/// write to the block itself; the others write partial sums, which `levels` combine in fixed order,
/// kSegment at a time.
struct GatherPlan {
  std::uint32_t array = 0;        ///< of Model::arrays, or kScalars
  std::uint64_t x_first = 0;      ///< x index of block 0's first scalar
  std::uint32_t block_width = 1;  ///< scalars of a block
  std::vector<std::uint32_t>
      block_slots;                    ///< group of each block slot (index into find_groups' result)
  std::vector<std::uint32_t> starts;  ///< items * block_slots + 1
  std::vector<std::uint32_t> blocks;  ///< by item
  std::vector<std::uint32_t> outputs;    ///< by item: the block, or a partial sum
  std::vector<std::uint32_t> instances;  ///< by entry
  std::uint32_t light_items = 0;         ///< items before this one are for one invocation
  std::uint32_t direct_items =
      0;                       ///< items before this one write to blocks, later ones partial sums
  std::uint32_t partials = 0;  ///< partial sums of all levels
  bool covers_all = false;     ///< each free block of the array has an entry
  /// True for invert_terms(): `instances` are positions of stored terms, and there is one block
  /// slot.
  bool of_terms = false;

  /// Sums partials [first[2k], first[2k + 1]) into target[k]: a partial of the next level, or an
  /// block.
  struct Level {
    std::vector<std::uint32_t> first;
    std::vector<std::uint32_t> target;
    bool to_blocks = false;
  };
  std::vector<Level> levels;
};

/// Inverts the index columns of a batch, one plan for each array its groups touch. Cost: a counting
/// sort of instances x block slots.
///
///   constant  by scalar, or empty: blocks whose scalars are all 1 are left out, and plans without
///             other blocks
std::vector<GatherPlan> invert(const ir::Batch& batch, std::span<const SlotGroup> groups,
                               std::span<const ParameterArray> arrays, std::uint64_t scalars,
                               std::span<const std::uint8_t> constant = {});

/// For every scalar, finds the positions of the stored terms that are added to it: the term of slot
/// slots[k] of instance i is at k * batch.size() + i. At most one plan.
/// Cost: a counting sort of instances x slots.
std::vector<GatherPlan> invert_terms(const ir::Batch& batch, std::span<const std::uint32_t> slots,
                                     std::uint64_t scalars,
                                     std::span<const std::uint8_t> constant = {});

/// Columns that an entry of a block slot reads, and how its slots read them; own slots are read
/// from the block.
struct EntryColumns {
  codegen::ColumnLayout layout;
  std::vector<std::uint32_t> index_columns;  ///< columns of the batch's layout, by entry column
  std::uint32_t fixed = 0;                   ///< this many are stored, the others are flexible
  std::uint32_t first_form = 0;  ///< flexible: entry column c has the form first_form + c - fixed
};
/// Columns for one block slot; `flexible` is by index column of the batch, or empty if none is.
EntryColumns entry_columns(const codegen::ColumnLayout& layout, const SlotGroup& own,
                           const std::vector<bool>& flexible = {});
/// The columns of the block slots of one kernel, flexible as far as its push constants have room.
std::vector<EntryColumns> entry_columns(const codegen::ColumnLayout& layout,
                                        std::span<const SlotGroup> groups,
                                        std::span<const std::uint32_t> block_slots,
                                        const FlexibleColumns& flexible);

/// The batch column for each column of a layout (its first user with offset 0).
struct StoredColumns {
  std::vector<std::uint32_t> index;  ///< batch index column (parameters first, then uniforms)
  std::vector<std::uint32_t> data;
};
StoredColumns stored_columns(const codegen::ColumnLayout& layout);

/// Fixed parts of a batch: slots whose scalars are all fixed, and blocks that need no sums.
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
