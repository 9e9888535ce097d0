// Detection of columns with equal pattern, and the graph of their blocks.
#include "block_graph.hpp"

#include <algorithm>
#include <cstddef>

namespace topograd::runtime {
namespace {

/// Rows below the diagonal.
std::span<const int> below(const LowerPattern& lower, std::uint32_t c) {
  std::span<const int> rows =
      lower.rows.subspan(static_cast<std::size_t>(lower.starts[c]),
                         static_cast<std::size_t>(lower.starts[c + 1] - lower.starts[c]));
  const bool diagonal = !rows.empty() && rows.front() == static_cast<int>(c);
  return diagonal ? rows.subspan(1) : rows;
}

std::span<const std::uint32_t> left_of(const LeftEntries& left, std::uint32_t r) {
  return std::span(left.columns).subspan(left.starts[r], left.starts[r + 1] - left.starts[r]);
}

/// True if columns c and c + 1 meet each other and the same others.
bool continues(const LowerPattern& lower, const LeftEntries& left, std::uint32_t c) {
  const std::span<const int> rows = below(lower, c);
  if (rows.empty() || rows.front() != static_cast<int>(c + 1)) return false;
  const std::span<const std::uint32_t> columns = left_of(left, c + 1);
  return std::ranges::equal(rows.subspan(1), below(lower, c + 1)) &&
         std::ranges::equal(columns.first(columns.size() - 1), left_of(left, c));
}

}  // namespace

LeftEntries::LeftEntries(const LowerPattern& lower) : starts(lower.columns() + 1, 0) {
  const std::uint32_t n = lower.columns();
  for (std::uint32_t c = 0; c < n; ++c)
    for (const int r : below(lower, c)) ++starts[static_cast<std::size_t>(r) + 1];
  for (std::uint32_t r = 0; r < n; ++r) starts[r + 1] += starts[r];
  columns.resize(starts.back());
  values.resize(starts.back());
  std::vector<std::uint32_t> next(starts.begin(), starts.end() - 1);
  for (std::uint32_t c = 0; c < n; ++c) {
    for (const int& r : below(lower, c)) {
      const std::uint32_t at = next[static_cast<std::size_t>(r)]++;
      columns[at] = c;
      values[at] = static_cast<std::uint32_t>(&r - lower.rows.data());
    }
  }
}

BlockGraph::BlockGraph(const LowerPattern& lower, const LeftEntries& left) {
  const std::uint32_t n = lower.columns();
  std::vector<std::uint32_t> block_of(n);
  for (std::uint32_t c = 0; c < n; ++c) {
    if (c == 0 || !continues(lower, left, c - 1)) first.push_back(c);
    block_of[c] = static_cast<std::uint32_t>(first.size()) - 1;
  }
  first.push_back(n);
  // A block meets all columns of another one or none, so that first columns tell everything.
  starts.push_back(0);
  for (std::uint32_t b = 0; b < size(); ++b) {
    for (const std::uint32_t c : left_of(left, first[b]))
      if (first[block_of[c]] == c) items.push_back(block_of[c]);
    for (const int row : below(lower, first[b])) {
      const auto r = static_cast<std::uint32_t>(row);
      if (first[block_of[r]] == r) items.push_back(block_of[r]);
    }
    starts.push_back(static_cast<std::uint32_t>(items.size()));
  }
}

}  // namespace topograd::runtime
