// Finds blocks of unknowns in the shapes that a function gave to them, and blocks of rows in what
// they read.
#include "blocks.hpp"

#include "../../ir/hash.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

namespace topograd::python {
namespace {

constexpr std::size_t kLongestRun = 8;

/// Facts by which rows are compared.
struct RowFacts {
  std::vector<std::uint64_t> kind;    ///< hash of the expression and of the unknowns
  std::vector<std::uint64_t> blocks;  ///< hash of the set of blocks
};

RowFacts facts_of(const std::vector<RowGroup>& groups, std::size_t rows,
                  const std::vector<UnknownArray>& arrays, Index unknowns) {
  const std::vector<std::uint32_t> array_of = arrays_by_unknown(arrays, unknowns);
  RowFacts facts{std::vector<std::uint64_t>(rows), std::vector<std::uint64_t>(rows)};
  std::vector<std::uint64_t> read;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const RowGroup& group = groups[g];
    for (std::size_t b = 0; b < group.rows.size(); ++b) {
      read.clear();
      std::uint64_t kind = ir::mix64(g);
      for (const std::vector<Index>& column : group.unknowns) {
        const Index unknown = column[b];
        kind = ir::mix64(kind ^ unknown);
        const UnknownArray& array = arrays[array_of[unknown]];
        const Index block = array.first + (unknown - array.first) / array.width * array.width;
        if (read.empty() || read.back() != block) read.push_back(block);
      }
      std::ranges::sort(read);
      read.erase(std::unique(read.begin(), read.end()), read.end());
      std::uint64_t hash = read.size();
      for (const std::uint64_t block : read) hash = ir::mix64(hash ^ ir::mix64(block + 1));
      facts.kind[group.rows[b]] = kind;
      facts.blocks[group.rows[b]] = hash;
    }
  }
  return facts;
}

/// Number of rows from `begin` on that make one block: rows of different kinds. If more rows read
/// the same blocks than a block should have, each is a block of its own.
std::size_t piece_of(const RowFacts& facts, std::size_t begin, std::size_t end) {
  const auto first = facts.kind.begin() + static_cast<std::ptrdiff_t>(begin);
  std::size_t piece = 1;
  while (begin + piece < end && piece <= kLongestRun &&
         std::find(first, first + static_cast<std::ptrdiff_t>(piece), facts.kind[begin + piece]) ==
             first + static_cast<std::ptrdiff_t>(piece))
    ++piece;
  return piece <= kLongestRun ? piece : 1;
}

}  // namespace

std::vector<UnknownArray> divide_unknowns(std::vector<UnknownArray> proposed, Index unknowns) {
  std::vector<UnknownArray> taken;
  for (const UnknownArray& array : proposed) {
    const bool meets = std::ranges::any_of(taken, [&](const UnknownArray& other) {
      return array.first < other.end() && other.first < array.end();
    });
    if (!meets && array.end() <= unknowns && array.count > 0) taken.push_back(array);
  }
  std::ranges::sort(taken, {}, &UnknownArray::first);
  std::vector<UnknownArray> out;
  Index at = 0;
  for (const UnknownArray& array : taken) {
    if (at < array.first) out.push_back({at, 1, array.first - at});
    out.push_back(array);
    at = array.end();
  }
  if (at < unknowns) out.push_back({at, 1, unknowns - at});
  return out;
}

std::vector<std::uint32_t> arrays_by_unknown(const std::vector<UnknownArray>& arrays,
                                             Index unknowns) {
  std::vector<std::uint32_t> out(unknowns);
  for (std::size_t a = 0; a < arrays.size(); ++a)
    std::fill(out.begin() + arrays[a].first, out.begin() + arrays[a].end(),
              static_cast<std::uint32_t>(a));
  return out;
}

std::vector<BlockRows> join_rows(const std::vector<RowGroup>& groups, std::size_t rows,
                                 const std::vector<UnknownArray>& arrays, Index unknowns) {
  // Rows of one expression that read the same unknowns, such as points of a curve, are not joined.
  const auto is_constant = [](const std::vector<Index>& column) {
    return std::ranges::all_of(column, [&](Index unknown) { return unknown == column[0]; });
  };
  if (groups.size() == 1 && std::ranges::all_of(groups[0].unknowns, is_constant)) return {};
  const RowFacts facts = facts_of(groups, rows, arrays, unknowns);
  std::map<std::size_t, BlockRows> by_width;
  for (std::size_t begin = 0; begin < rows;) {
    std::size_t end = begin + 1;
    while (end < rows && facts.blocks[end] == facts.blocks[begin]) ++end;
    while (begin < end) {
      const std::size_t width = piece_of(facts, begin, end);
      BlockRows& blocks = by_width[width];
      blocks.width = width;
      for (std::size_t k = 0; k < width; ++k) blocks.rows.push_back(static_cast<Index>(begin + k));
      begin += width;
    }
  }
  std::vector<BlockRows> out;
  for (auto& [width, blocks] : by_width) out.push_back(std::move(blocks));
  return out;
}

}  // namespace topograd::python
