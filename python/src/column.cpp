// Columns that are found again by their contents.
#include "column.hpp"

#include "../../ir/hash.hpp"

#include <array>
#include <utility>

namespace topograd::python {
namespace {

/// Four chains, because one would wait for each multiplication.
std::uint64_t hash_of(const Column& column) {
  std::array<std::uint64_t, 4> chains = {column.first, static_cast<std::uint64_t>(column.step), 1,
                                         2};
  const std::vector<Index>& positions = column.positions;
  std::size_t k = 0;
  for (; k + 4 <= positions.size(); k += 4)
    for (std::size_t c = 0; c < 4; ++c) chains[c] = ir::mix64(chains[c] ^ positions[k + c]);
  for (; k < positions.size(); ++k) chains[0] = ir::mix64(chains[0] ^ positions[k]);
  std::uint64_t hash = positions.size();
  for (const std::uint64_t chain : chains) hash = ir::mix64(hash ^ chain);
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

void Column::simplify() {
  if (positions.empty()) return;
  const std::int64_t begin = positions[0];
  const std::int64_t difference = positions.size() > 1 ? positions[1] - begin : 0;
  std::int64_t next = begin;
  for (const Index position : positions) {
    if (position != next) return;
    next += difference;
  }
  *this = {{}, static_cast<Index>(begin), difference};
}

void Column::append(std::size_t rows, const Column& more, std::size_t count) {
  if (positions.empty() && more.positions.empty()) {
    const std::int64_t difference = rows > 1 ? step : std::int64_t{more.first} - first;
    const bool continues =
        more.first == std::int64_t{first} + static_cast<std::int64_t>(rows) * difference;
    if (continues && (count == 1 || more.step == difference)) {
      step = difference;
      return;
    }
  }
  if (positions.empty()) {
    positions.resize(rows);
    for (std::size_t k = 0; k < rows; ++k) positions[k] = element(k);
    first = 0;
    step = 0;
  }
  for (std::size_t k = 0; k < count; ++k) positions.push_back(more[k]);
}

ColumnId Columns::add(Column column) {
  column.simplify();
  if (rows_ == 1) column.step = 0;
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
  if (view.shape.empty()) return add(Column::constant(static_cast<Index>(view.offset)));
  if (from.is_constant()) return add(Column::constant(element_of(view, number(from.first))));
  const bool in_line = view.shape.size() == 1;
  const std::int64_t stride = in_line ? view.strides[0] : 0;
  const auto in_view = [&](Index p) {
    return static_cast<Index>(view.offset + static_cast<std::int64_t>(number(p)) * stride);
  };
  if (in_line && from.positions.empty())
    return add({{}, in_view(from.first), from.step * scale * stride});
  Column to;
  to.positions.resize(rows_);
  for (std::size_t k = 0; k < rows_; ++k)
    to.positions[k] = in_line ? in_view(from[k]) : element_of(view, number(from[k]));
  return add(std::move(to));
}

ColumnId Columns::in_list(const std::vector<Index>& list, ColumnId column) {
  const Column& from = columns_[column];
  if (from.is_constant()) return add(Column::constant(list[from.first]));
  Column to;
  to.positions.resize(rows_);
  for (std::size_t k = 0; k < rows_; ++k) to.positions[k] = list[from[k]];
  return add(std::move(to));
}

}  // namespace topograd::python
