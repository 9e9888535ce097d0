// Plans: how the columns of a batch are stored, and the inversion of its index columns.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../model/model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Slots of a topology that always lie in one parameter block: one way in which an instance touches
/// it.
struct SlotGroup {
  std::uint32_t array = 0;  ///< of Model::arrays; kScalars for owners of one scalar
  std::vector<std::uint32_t> slots;
  std::vector<std::uint32_t> coordinates;  ///< of each slot in its block
};
inline constexpr std::uint32_t kScalars = ~0u;

/// A residual that touches more blocks is wide (is_wide): no kernel is made that has code for each
/// pair of them, or evaluates the residual once for each.
inline constexpr std::size_t kMostGroups = 24;

/// Groups the parameter slots of a batch. Where a slot's array or coordinate differs between
/// instances, and where there would be more than kMostGroups, all of the batch's slots become
/// groups of their own, with single scalars as owners (array == kScalars).
std::vector<SlotGroup> find_groups(const ir::Batch& batch, std::span<const ParameterArray> arrays);

/// The terms of such a batch are stored, and summed by one list of positions for each scalar
/// (invert_terms), whatever slots they come from.
inline bool is_wide(std::span<const SlotGroup> groups) { return groups.size() > kMostGroups; }

/// Columns of a batch that need not be stored as its rows are. Kernels are made for them: whatever
/// the rows become, the same kernels are right (codegen::ColumnLayout).
struct FlexibleColumns {
  std::vector<bool> index;  ///< by index column of the batch: base + step * row
  std::vector<bool> data;   ///< by data column: the same bits in all rows
  /// By group and index column: the same in all rows, or at a constant distance from the group.
  std::vector<std::vector<bool>> entries;

  /// Of a group; empty if nothing is flexible.
  std::vector<bool> of_group(std::size_t group) const {
    return group < entries.size() ? entries[group] : std::vector<bool>{};
  }
};
/// Cost: at most a pass over the columns for each group and one; a column that varies is known by
/// its first rows.
FlexibleColumns find_flexible(const ir::Batch& batch, std::span<const SlotGroup> groups);

/// One index column for each group of slots (a Vec3 costs one) and each uniform, the data columns
/// as they are; flexible ones, as many as the push constants of a kernel have room for, are the
/// last.
///
///   neighbours  the last so many index columns read neighbouring uniforms (those of a loss): one
///               column serves them
codegen::ColumnLayout make_layout(const ir::LeafCounts& leaves, std::span<const SlotGroup> groups,
                                  const FlexibleColumns& flexible, std::uint32_t neighbours = 0);

/// Bytes of an instance's columns that are not flexible; `number` is that of a data column.
std::uint32_t stored_bytes(const codegen::ColumnLayout& layout, std::uint32_t number);

/// Owners with more entries are summed by workgroups,
inline constexpr std::uint32_t kLightOwner = 64;
/// those with more of them in segments of at most so many.
inline constexpr std::uint32_t kSegment = 1024;

/// For every owner (parameter block) the entries (instance, role) that touch it, in a fixed order.
///
/// Work item w sums entries starts[w * roles + r] .. starts[w * roles + r + 1] of each role r.
/// First come the items of owners with at most kLightOwner entries, each for one invocation; those
/// that follow are for a workgroup each. Items of owners with at most kSegment entries write to the
/// owner itself; the others write partial sums, which `levels` combine in fixed order, kSegment at
/// a time.
struct GatherPlan {
  std::uint32_t array = 0;               ///< of Model::arrays, or kScalars
  std::uint64_t x_first = 0;             ///< x index of owner 0's first scalar
  std::uint32_t owner_width = 1;         ///< scalars of an owner
  std::vector<std::uint32_t> roles;      ///< group of each role (index into find_groups' result)
  std::vector<std::uint32_t> starts;     ///< items * roles + 1
  std::vector<std::uint32_t> owners;     ///< by item
  std::vector<std::uint32_t> outputs;    ///< by item: the owner, or a partial sum
  std::vector<std::uint32_t> instances;  ///< by entry
  std::uint32_t light_items = 0;         ///< items before this one are for one invocation
  std::uint32_t direct_items =
      0;                       ///< items before this one write to owners, later ones partial sums
  std::uint32_t partials = 0;  ///< partial sums of all levels
  bool covers_all = false;     ///< every owner of the array that is not held has at least one entry
  /// Of invert_terms: `instances` are positions of stored terms, there is one role.
  bool of_terms = false;

  /// Sums partials [first[2k], first[2k + 1]) into target[k]: a partial of the next level, or an
  /// owner.
  struct Level {
    std::vector<std::uint32_t> first;
    std::vector<std::uint32_t> target;
    bool to_owners = false;
  };
  std::vector<Level> levels;
};

/// Inverts the index columns of a batch, one plan for each array its groups touch.
/// Cost: a counting sort of instances x roles.
///
///   constant  by scalar, or empty: owners all of whose scalars are 1 there are left out, and plans
///             without other owners
std::vector<GatherPlan> invert(const ir::Batch& batch, std::span<const SlotGroup> groups,
                               std::span<const ParameterArray> arrays, std::uint64_t scalars,
                               std::span<const std::uint8_t> constant = {});

/// For every scalar the positions of the stored terms that are added to it: that of slot slots[k]
/// of instance i is k * batch.size() + i. At most one plan.
/// Cost: a counting sort of instances x slots.
std::vector<GatherPlan> invert_terms(const ir::Batch& batch, std::span<const std::uint32_t> slots,
                                     std::uint64_t scalars,
                                     std::span<const std::uint8_t> constant = {});

/// Columns that an entry of a role reads, and how its slots read them; own slots are read from the
/// owner.
struct EntryColumns {
  codegen::ColumnLayout layout;
  std::vector<std::uint32_t> index_columns;  ///< columns of the batch's layout, by entry column
  std::uint32_t fixed = 0;       ///< the first so many are stored, the others are flexible
  std::uint32_t first_form = 0;  ///< flexible: entry column c has the form first_form + c - fixed
};
/// `flexible` is by index column of the batch; empty: none is.
EntryColumns entry_columns(const codegen::ColumnLayout& layout, const SlotGroup& own,
                           const std::vector<bool>& flexible = {});
/// The columns of the roles of one kernel: flexible where its push constants have room for them.
std::vector<EntryColumns> entry_columns(const codegen::ColumnLayout& layout,
                                        std::span<const SlotGroup> groups,
                                        std::span<const std::uint32_t> roles,
                                        const FlexibleColumns& flexible);

/// The batch column behind each column of a layout (its first user with offset 0).
struct StoredColumns {
  std::vector<std::uint32_t> index;  ///< batch index column (parameters first, then uniforms)
  std::vector<std::uint32_t> data;
};
StoredColumns stored_columns(const codegen::ColumnLayout& layout);

}  // namespace topograd::runtime
