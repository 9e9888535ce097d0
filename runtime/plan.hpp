// Plans: how the columns of a batch are stored, and the inversion of its index columns.
#pragma once

#include <topograd/codegen/kernel.hpp>
#include <topograd/runtime/model.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Finds what need not be stored: an index column at a constant offset from another, a column that
/// is equal in all rows (where `constants` is set). Valid for the rows as they are: look again when
/// they change. Cost: one pass over the columns.
///
///   neighbours  the last so many index columns read neighbouring uniforms (those of a loss): one
///               column is stored for them, whatever their numbers are, so that kernels do not
///               depend on who has which loss
codegen::ColumnLayout find_layout(const ir::Batch& batch, bool constants,
                                  std::uint32_t neighbours = 0);

/// True if `layout` still describes the batch's rows from `first_row` on.
bool layout_holds(const ir::Batch& batch, const codegen::ColumnLayout& layout,
                  std::size_t first_row);

/// Slots of a topology that always lie in one parameter block: one way in which an instance touches
/// it.
struct SlotGroup {
  std::uint32_t array = 0;  ///< of Model::arrays; kScalars for owners of one scalar
  std::vector<std::uint32_t> slots;
  std::vector<std::uint32_t> coordinates;  ///< of each slot in its block
};
inline constexpr std::uint32_t kScalars = ~0u;

/// Groups the parameter slots of a batch. Where a slot's array or coordinate differs between
/// instances, all of the batch's slots become groups of their own, with single scalars as owners
/// (array == kScalars).
std::vector<SlotGroup> find_groups(const ir::Batch& batch, std::span<const ParameterArray> arrays);

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

/// Columns that an entry of a role stores, and how its slots read them; own slots are read from the
/// owner.
struct EntryColumns {
  codegen::ColumnLayout layout;
  std::vector<std::uint32_t>
      index_columns;  ///< stored columns of the batch's layout, by entry column
};
EntryColumns entry_columns(const codegen::ColumnLayout& layout, const SlotGroup& own);

/// The batch column behind each stored column of a layout (its first user with offset 0).
struct StoredColumns {
  std::vector<std::uint32_t> index;  ///< batch index column (parameters first, then uniforms)
  std::vector<std::uint32_t> data;
  std::vector<std::uint32_t> index_constants;
  std::vector<std::uint32_t> data_constants;
};
StoredColumns stored_columns(const codegen::ColumnLayout& layout);

}  // namespace topograd::runtime
