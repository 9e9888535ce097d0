// Which kept columns each eliminated block meets.
#include "schur_layout.hpp"

#include "panel.hpp"

#include <algorithm>
#include <utility>

namespace topograd {

std::vector<SchurLayout::Position> SchurLayout::positions_of(
    const std::vector<Elimination::Block>& eliminated, std::size_t columns) {
  std::vector<Position> positions(columns, Position{kNone, 0});
  for (std::uint32_t b = 0; b < eliminated.size(); ++b)
    for (std::uint32_t k = 0; k < eliminated[b].width; ++k)
      positions[eliminated[b].first + k] = {b, k};
  std::uint32_t kept = 0;
  for (Position& position : positions)
    if (position.block == kNone) position.at = kept++;
  return positions;
}

SchurLayout::SchurLayout(const std::vector<Elimination::Block>& eliminated, std::size_t columns,
                         Lists<std::uint32_t> meet)
    : blocks(eliminated), neighbours(std::move(meet)) {
  const std::vector<Position> positions = positions_of(blocks, columns);
  for (std::uint32_t c = 0; c < columns; ++c)
    if (positions[c].block == kNone) column.push_back(c);
  std::size_t e = 0, c = 0;
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    E.push_back(e);
    C.push_back(c);
    e += blocks[b].width * neighbours.size(b);
    c += std::size_t{blocks[b].width} * blocks[b].width;
  }
  E.push_back(e);
  C.push_back(c);
  find_uses();
  find_panels();
}

void SchurLayout::find_uses() {
  std::vector<std::size_t> next(column.size() + 1, 0);
  for (const std::uint32_t kept : neighbours.items) ++next[kept + 1];
  for (std::size_t k = 0; k < column.size(); ++k) next[k + 1] += next[k];
  uses.starts = next;
  uses.items.resize(neighbours.items.size());
  for (std::uint32_t b = 0; b < blocks.size(); ++b)
    for (std::uint32_t k = 0; k < neighbours.size(b); ++k)
      uses.items[next[neighbours[b][k]]++] = {b, k};
}

void SchurLayout::find_panels() {
  const auto follows = [](const Use& a, const Use& b) {
    return a.block == b.block && a.at + 1 == b.at;
  };
  const auto kept = static_cast<std::uint32_t>(column.size());
  for (std::uint32_t c = 0; c < kept; ++c) {
    if (c == 0 || c - panels.back() == Panel::kMostColumns ||
        !std::ranges::equal(uses[c - 1], uses[c], follows))
      panels.push_back(c);
  }
  panels.push_back(kept);
}

}  // namespace topograd
