// Storage of the flexible columns of a batch, found from its rows.
#pragma once

#include "plan.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace topograd::runtime {

/// Flexible columns of a topology with these groups: `found` when the process first meets it, and
/// the same from then on, so that changes of numbers, losses and instances between solves need no
/// new kernels. Thread-safe.
FlexibleColumns flexible_since_met(const ir::Topology& topology, std::span<const SlotGroup> groups,
                                   const FlexibleColumns& found);

/// An index column of a layout: stored by row, or base + step * row.
struct IndexForm {
  bool stored = true;
  std::uint32_t base = 0, step = 0;  ///< modulo 2^32
};

/// A data column of a layout: stored by row, or one number (the same bits) in all rows.
struct DataForm {
  bool stored = true;
  double value = 0;
};

/// Forms by column of the layout. Columns that are not flexible are stored.
struct ColumnForms {
  std::vector<IndexForm> index;
  std::vector<DataForm> data;

  std::uint32_t stored_index() const;
  std::uint32_t stored_data() const;
};

/// The number of a data column, if all rows have the same bits.
std::optional<double> shared_number(const ir::Batch& batch, std::uint32_t column);

/// Cost: at most one pass over the columns; a column that varies is known by its first rows.
ColumnForms find_forms(const ir::Batch& batch, const codegen::ColumnLayout& layout);

/// Checks the data again. A column that varies now is stored from here on, even if it becomes
/// constant again, so that one changing column does not move the others each time. Returns true if
/// a column was not stored before.
bool refresh_data_forms(const ir::Batch& batch, const codegen::ColumnLayout& layout,
                        ColumnForms& forms);

/// An index column of a role's entries: stored by entry, or base + step * the owner's first index.
using EntryForm = IndexForm;

/// Forms of the columns of `entry` in the entries of `own`, by entry column; fixed ones are stored.
std::vector<EntryForm> find_entry_forms(const ir::Batch& batch, const codegen::ColumnLayout& layout,
                                        const EntryColumns& entry, const SlotGroup& own);

}  // namespace topograd::runtime
