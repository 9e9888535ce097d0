// Column layouts: derived and constant columns, groups of slots.
#include <topograd/runtime/plan.hpp>

#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>

namespace topograd::runtime {
namespace {

using codegen::ColumnLayout;
using codegen::DataSource;
using codegen::IndexSource;

constexpr std::size_t kRows = ir::Batch::kBlockRows;

/// A block of rows of an index column, on the stack.
class IndexRows {
 public:
  IndexRows(const ir::Batch& batch, std::uint32_t column, std::size_t first)
      : size_(std::min(kRows, batch.size() - first)) {
    batch.copy_index_column(column, first, std::span(rows_).first(size_));
  }
  const std::uint32_t* begin() const { return rows_.data(); }
  const std::uint32_t* end() const { return rows_.data() + size_; }
  std::size_t size() const { return size_; }
  std::uint32_t operator[](std::size_t k) const { return rows_[k]; }

 private:
  std::size_t size_;
  std::array<std::uint32_t, kRows> rows_;  // the first size_ of them are set
};

/// True if test(row) says so of each block of rows, those from `first`, first + kRows, ... on. The
/// first block is tried by itself: most tests fail there.
template <class Test>
bool all_blocks(const ir::Batch& batch, std::size_t first, Test test) {
  if (first >= batch.size()) return true;
  if (!test(first)) return false;
  const std::size_t blocks = (batch.size() - first + kRows - 1) / kRows;
  std::atomic<bool> holds = true;
  tbb::parallel_for(std::size_t{1}, blocks, [&](std::size_t k) {
    if (holds.load(std::memory_order_relaxed) && !test(first + k * kRows)) holds = false;
  });
  return holds;
}

bool has_offset(const ir::Batch& batch, std::uint32_t a, std::uint32_t b, std::int32_t offset,
                std::size_t first) {
  return all_blocks(batch, first, [&](std::size_t row) {
    const IndexRows x(batch, a, row), y(batch, b, row);
    bool same = true;
    for (std::size_t k = 0; k < x.size(); ++k) {
      same &= y[k] - x[k] == static_cast<std::uint32_t>(offset);
    }
    return same;
  });
}

bool is_constant(const ir::Batch& batch, std::uint32_t column, std::uint32_t value,
                 std::size_t first) {
  return all_blocks(batch, first, [&](std::size_t row) {
    const IndexRows block(batch, column, row);
    return std::all_of(block.begin(), block.end(), [&](auto v) { return v == value; });
  });
}

bool is_constant_data(const ir::Batch& batch, std::uint32_t column, double value,
                      std::size_t first) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return all_blocks(batch, first, [&](std::size_t row) {
    std::array<double, kRows> rows;
    const auto block = std::span(rows).first(std::min(kRows, batch.size() - row));
    batch.copy_data_column(column, row, block);
    return std::all_of(block.begin(), block.end(),
                       [&](double v) { return std::bit_cast<std::uint64_t>(v) == bits; });
  });
}

/// Builds a layout slot by slot.
class Finder {
 public:
  Finder(const ir::Batch& batch, bool constant_data)
      : batch_(batch), constant_data_(constant_data) {}

  ColumnLayout find(std::uint32_t neighbours) {
    for (std::uint32_t k = 0; k < batch_.parameter_columns(); ++k) {
      layout_.parameters.push_back(index_source(k));
    }
    bases_.clear();
    const std::uint32_t first = batch_.uniform_columns() - neighbours;
    for (std::uint32_t k = 0; k < first; ++k) {
      layout_.uniforms.push_back(index_source(batch_.parameter_columns() + k));
    }
    for (std::uint32_t k = 0; k < neighbours; ++k) {
      layout_.uniforms.push_back(
          {IndexSource::Kind::column, layout_.index_columns, static_cast<std::int32_t>(k)});
    }
    layout_.index_columns += neighbours > 0 ? 1 : 0;
    for (std::uint32_t k = 0; k < batch_.data_columns(); ++k)
      layout_.data.push_back(data_source(k));
    return layout_;
  }

 private:
  IndexSource index_source(std::uint32_t column) {
    if (batch_.size() > 0 && is_constant(batch_, column, batch_.index(0, column), 0)) {
      return {IndexSource::Kind::constant, layout_.index_constants++, 0};
    }
    for (const auto& [base, stored] : bases_) {
      if (batch_.size() == 0) break;
      const auto offset =
          static_cast<std::int32_t>(batch_.index(0, column) - batch_.index(0, base));
      if (has_offset(batch_, base, column, offset, 0)) {
        return {IndexSource::Kind::column, stored, offset};
      }
    }
    bases_.emplace_back(column, layout_.index_columns);
    return {IndexSource::Kind::column, layout_.index_columns++, 0};
  }

  DataSource data_source(std::uint32_t column) {
    if (constant_data_ && batch_.size() > 0 &&
        is_constant_data(batch_, column, batch_.data(0, column), 0)) {
      return {DataSource::Kind::constant, layout_.data_constants++};
    }
    return {DataSource::Kind::column, layout_.data_columns++};
  }

  const ir::Batch& batch_;
  bool constant_data_;
  ColumnLayout layout_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> bases_;  // batch column, stored column
};

std::vector<IndexSource> all_sources(const ColumnLayout& layout) {
  std::vector<IndexSource> sources = layout.parameters;
  sources.insert(sources.end(), layout.uniforms.begin(), layout.uniforms.end());
  return sources;
}

/// Array and coordinate of a column, if they are the same in all rows.
struct Place {
  std::uint32_t array;
  std::uint32_t coordinate;
};

std::uint32_t array_of(std::span<const ParameterArray> arrays, std::uint64_t index) {
  const auto after = std::upper_bound(arrays.begin(), arrays.end(), index,
                                      [](auto i, const ParameterArray& a) { return i < a.offset; });
  return static_cast<std::uint32_t>(after - arrays.begin()) - 1;
}

std::optional<Place> place_of(const ir::Batch& batch, std::uint32_t column,
                              std::span<const ParameterArray> arrays) {
  const std::uint32_t array = array_of(arrays, batch.index(0, column));
  const ParameterArray& a = arrays[array];
  const std::uint64_t end = a.offset + a.blocks * a.width;
  const auto offset = static_cast<std::uint32_t>(a.offset);  // of an array that has an index
  const std::uint32_t coordinate = (batch.index(0, column) - offset) % a.width;
  const bool same = all_blocks(batch, 0, [&](std::size_t row) {
    const IndexRows block(batch, column, row);
    return std::all_of(block.begin(), block.end(), [&](std::uint32_t index) {
      return index >= offset && index < end && (index - offset) % a.width == coordinate;
    });
  });
  if (!same) return std::nullopt;
  return Place{array, coordinate};
}

/// Coordinate of a column in the blocks of a group, if it lies in them in all rows.
std::optional<std::uint32_t> coordinate_in(const SlotGroup& group, const ir::Batch& batch,
                                           std::uint32_t column,
                                           std::span<const ParameterArray> arrays) {
  const auto offset =
      static_cast<std::int32_t>(batch.index(0, column) - batch.index(0, group.slots[0]));
  const std::int64_t coordinate = std::int64_t{group.coordinates[0]} + offset;
  if (coordinate < 0 || coordinate >= std::int64_t{arrays[group.array].width}) return std::nullopt;
  if (!has_offset(batch, group.slots[0], column, offset, 0)) return std::nullopt;
  return static_cast<std::uint32_t>(coordinate);
}

std::vector<SlotGroup> scalar_groups(const ir::Batch& batch) {
  std::vector<SlotGroup> groups;
  for (std::uint32_t k = 0; k < batch.parameter_columns(); ++k)
    groups.push_back({kScalars, {k}, {0}});
  return groups;
}

}  // namespace

ColumnLayout find_layout(const ir::Batch& batch, bool constant_data, std::uint32_t neighbours) {
  return Finder(batch, constant_data).find(neighbours);
}

bool layout_holds(const ir::Batch& batch, const ColumnLayout& layout, std::size_t first_row) {
  const StoredColumns stored = stored_columns(layout);
  const std::vector<IndexSource> sources = all_sources(layout);
  for (std::uint32_t k = 0; k < sources.size(); ++k) {
    const IndexSource& s = sources[k];
    const bool holds = s.kind == IndexSource::Kind::constant
                           ? is_constant(batch, k, batch.index(0, k), first_row)
                       : stored.index[s.column] == k
                           ? true
                           : has_offset(batch, stored.index[s.column], k, s.offset, first_row);
    if (!holds) return false;
  }
  for (std::uint32_t k = 0; k < layout.data.size(); ++k) {
    if (layout.data[k].kind == DataSource::Kind::constant &&
        !is_constant_data(batch, k, batch.data(0, k), first_row)) {
      return false;
    }
  }
  return true;
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
    const std::optional<Place> place = place_of(batch, k, arrays);
    if (!place) return scalar_groups(batch);
    groups.push_back({place->array, {k}, {place->coordinate}});
  }
  return groups;
}

EntryColumns entry_columns(const ColumnLayout& layout, const SlotGroup& own) {
  EntryColumns entry{layout, {}};
  std::vector<std::uint32_t> renamed(layout.index_columns, ~0u);
  const auto rename = [&](IndexSource& source) {
    if (source.kind == IndexSource::Kind::constant) return;
    if (renamed[source.column] == ~0u) {
      renamed[source.column] = static_cast<std::uint32_t>(entry.index_columns.size());
      entry.index_columns.push_back(source.column);
    }
    source.column = renamed[source.column];
  };
  for (std::uint32_t k = 0; k < entry.layout.parameters.size(); ++k) {
    const bool is_own = std::find(own.slots.begin(), own.slots.end(), k) != own.slots.end();
    if (!is_own) rename(entry.layout.parameters[k]);
  }
  for (IndexSource& source : entry.layout.uniforms) rename(source);
  entry.layout.index_columns = static_cast<std::uint32_t>(entry.index_columns.size());
  return entry;
}

StoredColumns stored_columns(const ColumnLayout& layout) {
  StoredColumns stored;
  stored.index.resize(layout.index_columns);
  stored.index_constants.resize(layout.index_constants);
  stored.data.resize(layout.data_columns);
  stored.data_constants.resize(layout.data_constants);
  const std::vector<IndexSource> sources = all_sources(layout);
  for (std::uint32_t k = static_cast<std::uint32_t>(sources.size()); k-- > 0;) {
    const IndexSource& s = sources[k];
    if (s.kind == IndexSource::Kind::constant) stored.index_constants[s.column] = k;
    if (s.kind == IndexSource::Kind::column && s.offset == 0) stored.index[s.column] = k;
  }
  for (std::uint32_t k = 0; k < layout.data.size(); ++k) {
    const DataSource& s = layout.data[k];
    (s.kind == DataSource::Kind::constant ? stored.data_constants : stored.data)[s.column] = k;
  }
  return stored;
}

}  // namespace topograd::runtime
