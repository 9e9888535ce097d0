// Columns that are found again by their contents.
#include "column.hpp"

#include "../../ir/hash.hpp"

#include <algorithm>
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

NumberMap::Slot& NumberMap::slot_of(std::uint64_t key) {
  std::size_t at = ir::mix64(key) & (slots_.size() - 1);
  while (slots_[at].key != key && slots_[at].key != ~std::uint64_t{0})
    at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

void NumberMap::grow() {
  const std::vector<Slot> before =
      std::exchange(slots_, std::vector<Slot>(std::max<std::size_t>(16, 2 * slots_.size())));
  for (const Slot& slot : before)
    if (slot.key != ~std::uint64_t{0}) slot_of(slot.key) = slot;
}

std::uint32_t NumberMap::emplace(std::uint64_t key, std::uint32_t number) {
  if (2 * used_ >= slots_.size()) grow();
  Slot& slot = slot_of(key);
  if (slot.key == key) return slot.number;
  slot = {key, number};
  ++used_;
  return number;
}

ColumnId Columns::add(Column column) {
  column.simplify();
  if (rows_ == 1) column.step = 0;
  if (column.is_constant()) return add_constant(column.first);
  const std::uint64_t hash = hash_of(column);
  for (auto [at, end] = by_hash_.equal_range(hash); at != end; ++at)
    if (columns_[at->second] == column) return at->second;
  const auto id = static_cast<ColumnId>(columns_.size());
  by_hash_.emplace(hash, id);
  columns_.push_back(std::move(column));
  return id;
}

ColumnId Columns::add_constant(Index position) {
  const auto next = static_cast<ColumnId>(columns_.size());
  const ColumnId id = constants_.emplace(position, next);
  if (id == next) columns_.push_back(Column::constant(position));
  return id;
}

ColumnId Columns::through(const Layout& view, ColumnId column, Index scale, Index shift) {
  const Column& from = columns_[column];
  const auto number = [&](Index p) { return std::uint64_t{p} * scale + shift; };
  if (view.shape.empty()) return add_constant(static_cast<Index>(view.offset));
  if (from.is_constant()) return add_constant(view.element(number(from.first)));
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
    to.positions[k] = in_line ? in_view(from[k]) : view.element(number(from[k]));
  return add(std::move(to));
}

ColumnId Columns::in_list(const std::vector<Index>& list, ColumnId column) {
  const Column& from = columns_[column];
  if (from.is_constant()) return add_constant(list[from.first]);
  Column to;
  to.positions.resize(rows_);
  for (std::size_t k = 0; k < rows_; ++k) to.positions[k] = list[from[k]];
  return add(std::move(to));
}

}  // namespace topograd::python
