// Detection of columns with equal pattern, and the graph of their blocks.
#include "block_graph.hpp"

#include "../../ir/machine/short_loop.hpp"

#include <algorithm>
#include <atomic>

namespace topograd::runtime {
namespace {

using List = std::vector<std::uint32_t>;

/// True if column c has row c + 1, and then the same rows as column c + 1.
bool continues_below(const LowerPattern& lower, std::uint32_t c) {
  const std::span<const int> rows = lower.rows_below(c), next = lower.rows_below(c + 1);
  return rows.size() == next.size() + 1 && rows.front() == static_cast<int>(c + 1) &&
         std::ranges::equal(rows.subspan(1), next);
}

/// By row: 1 if some column before the row above has one of both rows without the other.
///
///   leads  by column: it has other rows than the one before. The others need no look.
std::vector<char> differing_rows(const LowerPattern& lower, const std::vector<char>& leads) {
  std::vector<char> out(lower.columns());
  const auto mark = [&](int row) {
    std::atomic_ref(out[static_cast<std::size_t>(row)]).store(1, std::memory_order_relaxed);
  };
  ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, lower.columns(), [&](std::uint32_t c) {
    if (leads[c] == 0) return;
    int before = static_cast<int>(c);
    for (const int row : lower.rows_below(c)) {
      if (row != before + 1) {
        if (before != static_cast<int>(c)) mark(before + 1);
        mark(row);
      }
      before = row;
    }
    if (before != static_cast<int>(c) && before + 1 < static_cast<int>(lower.columns()))
      mark(before + 1);
  });
  return out;
}

/// First columns of blocks, and the number of columns.
List find_blocks(const LowerPattern& lower) {
  const std::uint32_t n = lower.columns();
  std::vector<char> leads(n, 1);
  ir::parallel_for_beyond(
      ir::kLightCalls, std::uint32_t{0}, n > 0 ? n - 1 : 0,
      [&](std::uint32_t c) { leads[c + 1] = continues_below(lower, c) ? 0 : 1; });
  const std::vector<char> differs = differing_rows(lower, leads);
  List first;
  for (std::uint32_t c = 0; c < n; ++c)
    if (leads[c] != 0 || differs[c] != 0) first.push_back(c);
  first.push_back(n);
  return first;
}

}  // namespace

BlockGraph::BlockGraph(const LowerPattern& lower) : first(find_blocks(lower)) {
  constexpr std::uint32_t kInside = ~std::uint32_t{0};
  List block_of(lower.columns(), kInside);  // of first columns
  for (std::uint32_t b = 0; b < size(); ++b) block_of[first[b]] = b;
  // A block meets all columns of another one or none, so that first columns tell everything.
  const auto each_below = [&](std::uint32_t b, const auto& visit) {
    const std::span<const int> rows = lower.rows_below(first[b]);
    for (std::uint32_t k = 0; k < rows.size(); ++k) {
      const std::uint32_t other = block_of[static_cast<std::size_t>(rows[k])];
      if (other != kInside) visit(other, k);
    }
  };
  List after(size() + 1);  // neighbours that come later; then where they begin among all of these
  ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, size(), [&](std::uint32_t b) {
    each_below(b, [&](std::uint32_t, std::uint32_t) { ++after[b + 1]; });
  });
  for (std::uint32_t b = 0; b < size(); ++b) after[b + 1] += after[b];
  List later(after.back()), places(after.back());
  ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, size(), [&](std::uint32_t b) {
    std::uint32_t at = after[b];
    each_below(b, [&](std::uint32_t other, std::uint32_t k) {
      later[at] = other;
      places[at++] = k;
    });
  });

  List next(size());  // numbers of earlier neighbours, then where the next one goes
  for (const std::uint32_t other : later) ++next[other];
  starts.resize(size() + 1);
  for (std::uint32_t b = 0; b < size(); ++b) {
    starts[b + 1] = starts[b] + next[b] + after[b + 1] - after[b];
    next[b] = starts[b];
  }
  items.resize(starts.back());
  offsets.resize(starts.back());
  for (std::uint32_t b = 0; b < size(); ++b) {
    for (std::uint32_t at = after[b]; at < after[b + 1]; ++at) {
      const std::uint32_t to = next[later[at]]++;
      items[to] = b;
      offsets[to] = places[at];
    }
  }
  ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, size(), [&](std::uint32_t b) {
    std::copy(later.begin() + after[b], later.begin() + after[b + 1], items.begin() + next[b]);
    std::copy(places.begin() + after[b], places.begin() + after[b + 1], offsets.begin() + next[b]);
  });
}

}  // namespace topograd::runtime
