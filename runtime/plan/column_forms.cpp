// Columns whose rows share one number, count up, or follow another column.
#include "column_forms.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>

namespace topograd::runtime {
namespace {

using codegen::ColumnLayout;
using codegen::DataSource;
using codegen::IndexSource;

bool has_value(const ir::Batch& batch, std::uint32_t column, std::uint32_t value) {
  return all_blocks(batch, [&](std::size_t first) {
    const IndexRows rows(batch, column, first);
    return std::ranges::all_of(rows, [&](std::uint32_t index) { return index == value; });
  });
}

IndexForm index_form(const ir::Batch& batch, std::uint32_t column) {
  IndexForm form{.stored = false, .base = batch.index(0, column)};
  if (batch.size() > 1) form.step = batch.index(1, column) - form.base;
  form.stored = !all_blocks(batch, [&](std::size_t first) {
    const IndexRows rows(batch, column, first);
    auto expected = form.base + form.step * static_cast<std::uint32_t>(first);
    bool same = true;
    for (const std::uint32_t index : rows) {
      same &= index == expected;
      expected += form.step;
    }
    return same;
  });
  return form;
}

DataForm data_form(const ir::Batch& batch, std::uint32_t column) {
  const std::optional<double> number = shared_number(batch, column);
  return {.stored = !number.has_value(), .value = number.value_or(0)};
}

EntryForm entry_form(const ir::Batch& batch, std::uint32_t column, const SlotGroup& own) {
  const std::uint32_t value = batch.index(0, column);
  if (has_value(batch, column, value)) return {.stored = false, .base = value};
  const std::uint32_t distance = value - batch.index(0, own.slots[0]);
  if (!has_offset(batch, own.slots[0], column, distance)) return {};
  return {.stored = false, .base = distance + own.coordinates[0], .step = 1};
}

template <class Source>
std::vector<bool> flexible_columns(std::span<const Source> sources, std::uint32_t columns) {
  std::vector<bool> flexible(columns, false);
  for (const Source& source : sources) {
    if (source.kind == Source::Kind::flexible) flexible[source.column] = true;
  }
  return flexible;
}

std::vector<bool> flexible_index(const ColumnLayout& layout) {
  std::vector<bool> flexible =
      flexible_columns<IndexSource>(layout.parameters, layout.index_columns);
  const std::vector<bool> uniforms =
      flexible_columns<IndexSource>(layout.uniforms, layout.index_columns);
  for (std::size_t k = 0; k < flexible.size(); ++k) flexible[k] = flexible[k] || uniforms[k];
  return flexible;
}

}  // namespace

std::optional<double> shared_number(const ir::Batch& batch, std::uint32_t column) {
  // A device-resident column may change to anything.
  if (batch.size() == 0 || batch.resident(column)) return std::nullopt;
  const double value = batch.data(0, column);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const bool same = all_blocks(batch, [&](std::size_t first) {
    const DataRows rows(batch, column, first);
    return std::ranges::all_of(rows,
                               [&](double v) { return std::bit_cast<std::uint64_t>(v) == bits; });
  });
  return same ? std::optional(value) : std::nullopt;
}

std::uint32_t ColumnForms::stored_index() const {
  return static_cast<std::uint32_t>(std::ranges::count(index, true, &IndexForm::stored));
}

std::uint32_t ColumnForms::stored_data() const {
  return static_cast<std::uint32_t>(std::ranges::count(data, true, &DataForm::stored));
}

ColumnForms find_forms(const ir::Batch& batch, const ColumnLayout& layout) {
  ColumnForms forms{.index = std::vector<IndexForm>(layout.index_columns),
                    .data = std::vector<DataForm>(layout.data_columns)};
  if (batch.size() == 0) return forms;
  const StoredColumns stored = stored_columns(layout);
  const std::vector<bool> index = flexible_index(layout);
  for (std::uint32_t c = 0; c < layout.index_columns; ++c) {
    if (index[c]) forms.index[c] = index_form(batch, stored.index[c]);
  }
  const std::vector<bool> data = flexible_columns<DataSource>(layout.data, layout.data_columns);
  for (std::uint32_t c = 0; c < layout.data_columns; ++c) {
    if (data[c]) forms.data[c] = data_form(batch, stored.data[c]);
  }
  return forms;
}

bool refresh_data_forms(const ir::Batch& batch, const ColumnLayout& layout, ColumnForms& forms) {
  const StoredColumns stored = stored_columns(layout);
  bool moved = false;
  for (std::uint32_t c = 0; c < layout.data_columns; ++c) {
    if (forms.data[c].stored) continue;
    forms.data[c] = data_form(batch, stored.data[c]);
    moved |= forms.data[c].stored;
  }
  return moved;
}

std::vector<EntryForm> find_entry_forms(const ir::Batch& batch, const ColumnLayout& layout,
                                        const EntryColumns& entry, const SlotGroup& own) {
  const StoredColumns stored = stored_columns(layout);
  std::vector<EntryForm> forms(entry.index_columns.size());
  for (std::size_t c = entry.fixed; c < forms.size(); ++c) {
    forms[c] = entry_form(batch, stored.index[entry.index_columns[c]], own);
  }
  return forms;
}

FlexibleColumns flexible_since_met(const ir::Topology& topology, std::span<const SlotGroup> groups,
                                   const FlexibleColumns& found) {
  ir::Hash128 key = topology.hash;
  const ir::LeafCounts& leaves = topology.program.leaves;
  for (const std::uint32_t n : {leaves.parameters, leaves.uniforms, leaves.data}) key.add(n);
  for (const SlotGroup& group : groups) {
    key.add(group.slots.size());
    for (const std::uint32_t slot : group.slots) key.add(slot);
    for (const std::uint32_t coordinate : group.coordinates) key.add(coordinate);
  }
  static auto& mutex = *new std::mutex;
  static auto& met = *new std::unordered_map<ir::Hash128, FlexibleColumns>;
  const std::lock_guard lock(mutex);
  return met.try_emplace(key, found).first->second;
}

FlexibleColumns find_flexible(const ir::Batch& batch, std::span<const SlotGroup> groups) {
  FlexibleColumns flexible{.index = std::vector<bool>(batch.index_columns(), false),
                           .data = std::vector<bool>(batch.data_columns(), false),
                           .entries = {}};
  if (is_wide(groups)) return flexible;  // loops over columns need them stored
  flexible.entries.assign(groups.size(), flexible.index);
  if (batch.size() == 0) return flexible;
  std::vector<std::uint32_t> columns;
  for (const SlotGroup& group : groups) columns.push_back(group.slots[0]);
  for (std::uint32_t k = 0; k < batch.uniform_columns(); ++k) {
    columns.push_back(batch.parameter_columns() + k);
  }
  for (const std::uint32_t column : columns) {
    flexible.index[column] = !index_form(batch, column).stored;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      flexible.entries[g][column] = !entry_form(batch, column, groups[g]).stored;
    }
  }
  for (std::uint32_t k = 0; k < batch.data_columns(); ++k) {
    flexible.data[k] = !data_form(batch, k).stored;
  }
  return flexible;
}

}  // namespace topograd::runtime
