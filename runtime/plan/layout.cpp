// Column layouts: groups of slots, the columns that they share, and fixed scalars and blocks.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>

#include "../../ir/machine/parallel.hpp"
#include "column_forms.hpp"
#include "plan.hpp"

namespace topograd::runtime {
namespace {

using codegen::ColumnLayout;
using codegen::DataSource;
using codegen::IndexSource;

std::vector<IndexSource> all_sources(const ColumnLayout& layout) {
  std::vector<IndexSource> sources = layout.parameters;
  sources.insert(sources.end(), layout.uniforms.begin(), layout.uniforms.end());
  return sources;
}

/// Array and coordinate of a column, if they are the same in all rows.
struct BlockCoordinate {
  std::uint32_t array;
  std::uint32_t coordinate;
};

std::uint32_t array_of(std::span<const ParameterArray> arrays, std::uint64_t index) {
  const auto after = std::upper_bound(arrays.begin(), arrays.end(), index,
                                      [](auto i, const ParameterArray& a) { return i < a.offset; });
  return static_cast<std::uint32_t>(after - arrays.begin()) - 1;
}

std::optional<BlockCoordinate> coordinate_of(const ir::Batch& batch, std::uint32_t column,
                                             std::span<const ParameterArray> arrays) {
  const std::uint32_t array = array_of(arrays, batch.index(0, column));
  const ParameterArray& a = arrays[array];
  const std::uint64_t end = a.offset + a.blocks * a.width;
  const auto offset = static_cast<std::uint32_t>(a.offset);  // of an array that has an index
  const std::uint32_t coordinate = (batch.index(0, column) - offset) % a.width;
  const bool same = all_blocks(batch, [&](std::size_t row) {
    const IndexRows block(batch, column, row);
    return std::all_of(block.begin(), block.end(), [&](std::uint32_t index) {
      return index >= offset && index < end && (index - offset) % a.width == coordinate;
    });
  });
  if (!same) return std::nullopt;
  return BlockCoordinate{array, coordinate};
}

/// Coordinate of a column in the blocks of a group, if it is the same in all rows.
std::optional<std::uint32_t> coordinate_in(const SlotGroup& group, const ir::Batch& batch,
                                           std::uint32_t column,
                                           std::span<const ParameterArray> arrays) {
  const auto offset =
      static_cast<std::int32_t>(batch.index(0, column) - batch.index(0, group.slots[0]));
  const std::int64_t coordinate = std::int64_t{group.coordinates[0]} + offset;
  if (coordinate < 0 || coordinate >= std::int64_t{arrays[group.array].width}) return std::nullopt;
  if (!has_offset(batch, group.slots[0], column, static_cast<std::uint32_t>(offset))) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(coordinate);
}

std::vector<SlotGroup> scalar_groups(const ir::Batch& batch) {
  std::vector<SlotGroup> groups;
  for (std::uint32_t k = 0; k < batch.parameter_columns(); ++k)
    groups.push_back({kScalars, {k}, {0}});
  return groups;
}

/// Layout columns for batch columns: fixed ones first, then at most `most` flexible ones.
struct Numbering {
  std::vector<std::uint32_t> column;  // by position in `batch_columns`
  std::uint32_t fixed = 0;

  Numbering(std::span<const std::uint32_t> batch_columns, const std::vector<bool>& flexible,
            std::uint32_t most) {
    std::vector<bool> is_flexible;
    for (const std::uint32_t at : batch_columns) {
      is_flexible.push_back(at < flexible.size() && flexible[at] && most > 0);
      if (is_flexible.back()) --most;
    }
    fixed = static_cast<std::uint32_t>(std::ranges::count(is_flexible, false));
    std::uint32_t next_fixed = 0, next_flexible = fixed;
    for (const bool one : is_flexible) column.push_back(one ? next_flexible++ : next_fixed++);
  }
  template <class Source>
  Source source(std::size_t k) const {
    const bool is_flexible = column[k] >= fixed;
    return {.kind = is_flexible ? Source::Kind::flexible : Source::Kind::column,
            .column = column[k]};
  }
};

std::uint32_t count_data_forms(const ColumnLayout& layout) {
  return static_cast<std::uint32_t>(
      std::ranges::count(layout.data, DataSource::Kind::flexible, &DataSource::kind));
}

/// Number of rows of an index column that satisfy a test.
template <class Test>
std::uint64_t count_rows(const ir::Batch& batch, std::uint32_t column, Test test) {
  std::atomic<std::uint64_t> total = 0;
  ir::parallel_pieces(batch.size(), ir::Batch::kBlockRows, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint32_t> block(end - begin);
    batch.copy_index_column(column, begin, block);
    total += static_cast<std::uint64_t>(std::ranges::count_if(block, test));
  });
  return total;
}

}  // namespace

ColumnLayout make_layout(const ir::LeafCounts& leaves, std::span<const SlotGroup> groups,
                         const FlexibleColumns& flexible, std::uint32_t neighbours) {
  constexpr std::uint32_t kMostDataForms = 10;
  ColumnLayout layout;
  std::vector<std::uint32_t> numbers(leaves.data);
  std::iota(numbers.begin(), numbers.end(), 0u);
  const Numbering data(numbers, flexible.data, kMostDataForms);
  layout.data_columns = leaves.data;
  for (std::uint32_t k = 0; k < leaves.data; ++k) layout.data.push_back(data.source<DataSource>(k));

  std::vector<std::uint32_t> bases;  // batch columns
  for (const SlotGroup& group : groups) bases.push_back(group.slots[0]);
  const std::uint32_t alone = leaves.uniforms - neighbours + (neighbours > 0 ? 1 : 0);
  for (std::uint32_t k = 0; k < alone; ++k) bases.push_back(leaves.parameters + k);
  // An index and a step each.
  const Numbering index(bases, flexible.index,
                        (codegen::kMostFormWords - count_data_forms(layout)) / 2);
  layout.index_columns = static_cast<std::uint32_t>(bases.size());
  const auto source = [&](std::size_t k, std::uint32_t distance, std::uint32_t from) {
    auto made = index.source<IndexSource>(k);
    made.offset = static_cast<std::int32_t>(distance) - static_cast<std::int32_t>(from);
    if (made.kind == IndexSource::Kind::flexible) made.form = made.column;
    return made;
  };
  layout.parameters.resize(leaves.parameters);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t k = 0; k < groups[g].slots.size(); ++k) {
      layout.parameters[groups[g].slots[k]] =
          source(g, groups[g].coordinates[k], groups[g].coordinates[0]);
    }
  }
  for (std::uint32_t k = 0; k < leaves.uniforms; ++k) {
    const std::uint32_t base = std::min(k, alone - 1);
    layout.uniforms.push_back(source(groups.size() + base, k, base));
  }
  return layout;
}

std::vector<SlotGroup> find_groups(const ir::Batch& batch, std::span<const ParameterArray> arrays) {
  if (batch.size() == 0) return scalar_groups(batch);
  std::vector<SlotGroup> groups;
  for (std::uint32_t k = 0; k < batch.parameter_columns(); ++k) {
    bool found = false;
    for (SlotGroup& group : groups) {
      const std::optional<std::uint32_t> coordinate = coordinate_in(group, batch, k, arrays);
      if (!coordinate) continue;
      group.slots.push_back(k);
      group.coordinates.push_back(*coordinate);
      found = true;
      break;
    }
    if (found) continue;
    const std::optional<BlockCoordinate> located = coordinate_of(batch, k, arrays);
    if (!located || groups.size() == kMostGroups) return scalar_groups(batch);
    groups.push_back({located->array, {k}, {located->coordinate}});
  }
  return groups;
}

EntryColumns entry_columns(const ColumnLayout& layout, const SlotGroup& own,
                           const std::vector<bool>& flexible) {
  EntryColumns entry{.layout = layout};
  const StoredColumns stored = stored_columns(layout);
  std::vector<std::uint32_t> read, bases;  // columns of the layout, of the batch
  const auto need = [&](const IndexSource& source) {
    if (std::ranges::find(read, source.column) != read.end()) return;
    read.push_back(source.column);
    bases.push_back(stored.index[source.column]);
  };
  for (std::uint32_t k = 0; k < layout.parameters.size(); ++k) {
    if (std::ranges::find(own.slots, k) == own.slots.end()) need(layout.parameters[k]);
  }
  std::ranges::for_each(layout.uniforms, need);
  const Numbering numbering(bases, flexible, ~0u);
  entry.fixed = numbering.fixed;
  entry.index_columns.resize(read.size());
  for (std::size_t k = 0; k < read.size(); ++k) entry.index_columns[numbering.column[k]] = read[k];
  const auto rename = [&](IndexSource& source) {
    const std::int32_t offset = source.offset;
    const auto found = std::ranges::find(read, source.column);
    source = found == read.end()
                 ? IndexSource{}  // an own slot, which is not read
                 : numbering.source<IndexSource>(static_cast<std::size_t>(found - read.begin()));
    source.offset = offset;
  };
  std::ranges::for_each(entry.layout.parameters, rename);
  std::ranges::for_each(entry.layout.uniforms, rename);
  entry.layout.index_columns = static_cast<std::uint32_t>(read.size());
  return entry;
}

std::vector<EntryColumns> entry_columns(const ColumnLayout& layout,
                                        std::span<const SlotGroup> groups,
                                        std::span<const std::uint32_t> block_slots,
                                        const FlexibleColumns& flexible) {
  std::vector<EntryColumns> made;
  std::uint32_t most = 0, forms = 0;
  const std::uint32_t data_forms = count_data_forms(layout);
  for (const std::uint32_t block_slot : block_slots) {
    EntryColumns entry = entry_columns(
        layout, groups[block_slot],
        block_slot < flexible.entries.size() ? flexible.entries[block_slot] : std::vector<bool>{});
    const auto wanted = static_cast<std::uint32_t>(entry.index_columns.size()) - entry.fixed;
    if (2 * (forms + wanted) + data_forms > codegen::kMostFormWords) {
      entry = entry_columns(layout, groups[block_slot]);
    } else {
      entry.first_form = forms;
      forms += wanted;
    }
    most = std::max(most, entry.layout.index_columns);
    made.push_back(std::move(entry));
  }
  for (EntryColumns& entry : made) {
    entry.layout.index_columns = most;
    const auto number = [&](IndexSource& source) {
      if (source.kind == IndexSource::Kind::column) return;
      source.form = entry.first_form + source.column - entry.fixed;
    };
    std::ranges::for_each(entry.layout.parameters, number);
    std::ranges::for_each(entry.layout.uniforms, number);
  }
  return made;
}

std::uint32_t stored_bytes(const ColumnLayout& layout, std::uint32_t number) {
  std::vector<bool> index(layout.index_columns, false), data(layout.data_columns, false);
  for (const IndexSource& source : all_sources(layout)) {
    index[source.column] = source.kind == IndexSource::Kind::column;
  }
  for (const DataSource& source : layout.data) {
    data[source.column] = source.kind == DataSource::Kind::column;
  }
  return static_cast<std::uint32_t>(4 * std::ranges::count(index, true) +
                                    number * std::ranges::count(data, true));
}

StoredColumns stored_columns(const ColumnLayout& layout) {
  StoredColumns stored;
  stored.index.resize(layout.index_columns);
  stored.data.resize(layout.data_columns);
  const std::vector<IndexSource> sources = all_sources(layout);
  for (std::uint32_t k = static_cast<std::uint32_t>(sources.size()); k-- > 0;) {
    if (sources[k].offset == 0) stored.index[sources[k].column] = k;
  }
  for (std::uint32_t k = 0; k < layout.data.size(); ++k) stored.data[layout.data[k].column] = k;
  return stored;
}

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
