// Columns that are found again by their contents.
#include "column.hpp"

#include "../../ir/hash.hpp"

#include <algorithm>
#include <utility>

namespace topograd::python {
namespace {

std::uint64_t hash_of(const Column& column) {
  std::uint64_t hash = column.constant;
  for (const Index p : column.positions) hash = ir::mix64(hash ^ p);
  return hash;
}

/// Element k of the view, counted row by row.
Index element_of(const Layout& view, std::uint64_t k) {
  std::int64_t at = view.offset;
  for (std::size_t d = view.shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::uint64_t>(view.shape[d]);
    at += static_cast<std::int64_t>(k % extent) * view.strides[d];
    k /= extent;
  }
  return static_cast<Index>(at);
}

}  // namespace

ColumnId Columns::add(Column column) {
  if (!column.positions.empty()) {
    const Index first = column.positions.front();
    if (std::ranges::all_of(column.positions, [&](Index p) { return p == first; }))
      column = {{}, first};
  }
  const std::uint64_t hash = hash_of(column);
  for (auto [at, end] = by_hash_.equal_range(hash); at != end; ++at)
    if (columns_[at->second] == column) return at->second;
  const auto id = static_cast<ColumnId>(columns_.size());
  by_hash_.emplace(hash, id);
  columns_.push_back(std::move(column));
  return id;
}

ColumnId Columns::through(const Layout& view, ColumnId column, Index scale, Index shift) {
  const Column& from = columns_[column];
  const auto number = [&](Index p) { return std::uint64_t{p} * scale + shift; };
  if (from.is_constant()) return add({{}, element_of(view, number(from.constant))});
  if (view.shape.empty()) return add({{}, static_cast<Index>(view.offset)});
  Column to;
  to.positions.resize(rows_);
  if (view.shape.size() == 1) {
    const std::int64_t stride = view.strides[0];
    for (std::size_t k = 0; k < rows_; ++k)
      to.positions[k] = static_cast<Index>(
          view.offset + static_cast<std::int64_t>(number(from.positions[k])) * stride);
  } else {
    for (std::size_t k = 0; k < rows_; ++k)
      to.positions[k] = element_of(view, number(from.positions[k]));
  }
  return add(std::move(to));
}

}  // namespace topograd::python
