// The inversion of index columns: from blocks to the instances that touch them.
#include "term_index.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

namespace topograd::runtime::cpu {
namespace {

struct Range {
  std::uint32_t first = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t end = 0;
};

Range touched_blocks(std::span<const Role> roles, std::size_t instances,
                     const BlockLayout& layout) {
  Range range;
  for (const Role& role : roles) {
    const auto [low, high] = std::minmax_element(role.base.data(), role.base.data() + instances);
    range.first = std::min(range.first, layout.locate(*low).block);
    range.end = std::max(range.end, layout.locate(*high).block + 1);
  }
  return range;
}

// Calls f(block, entry) for all entries, by instance and then by role.
template <class F>
void for_entries(std::span<const Role> roles, std::size_t instances, const BlockLayout& layout,
                 std::uint32_t role_bits, F f) {
  for (std::uint32_t i = 0; i < instances; ++i) {
    for (std::uint32_t r = 0; r < roles.size(); ++r) {
      f(layout.locate(roles[r].base[i]).block, (i << role_bits) | r);
    }
  }
}

// Counting sort over the range of blocks; cost: entries + range.
void sort_by_counting(OwnerLists& lists, std::span<const Role> roles, std::size_t instances,
                      const BlockLayout& layout, Range range) {
  std::vector<std::uint32_t> next(range.end - range.first + 1);
  for_entries(roles, instances, layout, lists.role_bits,
              [&](std::uint32_t block, std::uint32_t) { ++next[block - range.first + 1]; });
  for (std::size_t k = 1; k < next.size(); ++k) {
    if (next[k] != 0) {
      lists.owners.push_back(static_cast<std::uint32_t>(range.first + k - 1));
      lists.starts.push_back(next[k - 1]);
    }
    next[k] += next[k - 1];
  }
  lists.starts.push_back(next.back());
  for_entries(roles, instances, layout, lists.role_bits,
              [&](std::uint32_t block, std::uint32_t entry) {
                lists.entries[next[block - range.first]++] = entry;
              });
}

// For few entries spread over many blocks.
void sort_by_comparing(OwnerLists& lists, std::span<const Role> roles, std::size_t instances,
                       const BlockLayout& layout) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for_entries(roles, instances, layout, lists.role_bits,
              [&](std::uint32_t block, std::uint32_t entry) { pairs.emplace_back(block, entry); });
  std::sort(pairs.begin(), pairs.end());
  for (std::uint32_t k = 0; k < pairs.size(); ++k) {
    if (k == 0 || pairs[k].first != pairs[k - 1].first) {
      lists.owners.push_back(pairs[k].first);
      lists.starts.push_back(k);
    }
    lists.entries[k] = pairs[k].second;
  }
  lists.starts.push_back(static_cast<std::uint32_t>(pairs.size()));
}

bool has_aliases(const OwnerLists& lists) {
  for (std::size_t k = 0; k < lists.owners.size(); ++k) {
    for (std::uint32_t e = lists.starts[k] + 1; e < lists.starts[k + 1]; ++e) {
      if (lists.instance(lists.entries[e]) == lists.instance(lists.entries[e - 1])) return true;
    }
  }
  return false;
}

std::vector<ListSegment> segments_of_long_lists(const OwnerLists& lists) {
  std::vector<ListSegment> segments;
  const auto continues = [&](std::uint32_t e) {
    return lists.instance(lists.entries[e]) == lists.instance(lists.entries[e - 1]);
  };
  for (std::uint32_t k = 0; k < lists.owners.size(); ++k) {
    const std::uint32_t end = lists.starts[k + 1];
    if (end - lists.starts[k] <= kLongList) continue;
    for (std::uint32_t begin = lists.starts[k]; begin < end;) {
      std::uint32_t next = std::min(end, begin + kLongList);
      while (next < end && continues(next)) ++next;
      segments.push_back({k, begin, next});
      begin = next;
    }
  }
  return segments;
}

}  // namespace

OwnerLists invert(std::span<const Role> roles, std::size_t instances, const BlockLayout& layout) {
  OwnerLists lists;
  lists.starts.reserve(1);
  if (instances == 0 || roles.empty()) {
    lists.starts.push_back(0);
    return lists;
  }
  lists.role_bits = static_cast<std::uint32_t>(std::bit_width(roles.size() - 1));
  const std::uint64_t largest = std::uint64_t{instances} << lists.role_bits;
  if (largest > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::InvalidArgument,
                "cpu engine: expected at most " +
                    std::to_string(std::numeric_limits<std::uint32_t>::max() >> lists.role_bits) +
                    " instances of a residual that touches " + std::to_string(roles.size()) +
                    " blocks, got " + std::to_string(instances));
  }
  const std::size_t entries = instances * roles.size();
  lists.entries = Column<std::uint32_t>(entries);
  const Range range = touched_blocks(roles, instances, layout);
  constexpr std::size_t kSparse = 16;  // blocks per entry from which comparing is cheaper
  if ((range.end - range.first) / kSparse > entries) {
    sort_by_comparing(lists, roles, instances, layout);
  } else {
    sort_by_counting(lists, roles, instances, layout, range);
  }
  lists.segments = segments_of_long_lists(lists);
  lists.aliased = roles.size() > 1 && has_aliases(lists);
  return lists;
}

}  // namespace topograd::runtime::cpu
