// Planning of JᵀJ: pairs of blocks that share an instance, by rows of blocks.
#include "normal_plan.hpp"

#include "../../codegen/vector/kernels.hpp"
#include "../../ir/machine/parallel.hpp"
#include "../model/model.hpp"
#include "../plan/partition.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <utility>

namespace topograd::runtime {
namespace {

/// Largest number of products that one invocation sums, or of numbers that a few invocations add.
constexpr std::uint32_t kMostOfBlock = 4096;
constexpr std::uint32_t kLongestRow = 16384;
constexpr std::uint32_t kMostGroups = 256;

/// Blocks `key` and `value` of an instance.
struct Pair : Keyed {
  std::uint32_t instance = 0;
  std::uint32_t term = 0;
  std::uint32_t block_slots = 0;
};

class NormalPlanner {
 public:
  NormalPlanner(const Model& model, std::span<const std::vector<SlotGroup>> groups,
                const NormalLimit& limit)
      : model_(model), groups_(groups), limit_(limit), numbers_(model.arrays) {
    for (std::uint32_t a = 0; a < model.arrays.size(); ++a)
      array_.insert(array_.end(), model.arrays[a].blocks, a);
  }

  NormalPlan make() {
    check_widths();
    for (std::size_t t = 0; t < model_.terms.size() && plan_.possible(); ++t) read_blocks(t);
    if (plan_.possible()) sort_pairs();
    if (plan_.possible()) place_rows();
    if (plan_.possible()) list_products();
    return std::move(plan_);
  }

 private:
  struct Part {  // for each term that takes part
    std::uint32_t term = 0;
    std::size_t groups = 0, instances = 0;
    ir::UnsetPagedVector<std::uint32_t> blocks;  // by instance and group
  };

  std::uint32_t width(std::uint32_t block) const { return model_.arrays[array_[block]].width; }
  std::uint32_t first_scalar(std::uint32_t block) const {
    const ParameterArray& a = model_.arrays[array_[block]];
    return static_cast<std::uint32_t>(a.offset + (block - numbers_.first(array_[block])) *
                                                     std::uint64_t{a.width});
  }
  std::span<const Pair> pairs_of(std::uint32_t block) const {
    return std::span(sorted_).subspan(row_[block], row_[block + 1] - row_[block]);
  }
  /// Calls work(first pair, beyond the last) for each other block in an instance with `block`.
  template <class Work>
  void each_meeting(std::uint32_t block, Work work) const {
    const std::span<const Pair> pairs = pairs_of(block);
    for (std::size_t first = 0, last = 0; first < pairs.size(); first = last) {
      while (last < pairs.size() && pairs[last].value == pairs[first].value) ++last;
      work(pairs.subspan(first, last - first));
    }
  }

  /// Calls sink(Pair) for each ordered pair of an instance's blocks.
  template <class Sink>
  static void each_pair(const Part& part, std::size_t instance, Sink& sink) {
    const std::uint32_t* const all = &part.blocks[instance * part.groups];
    for (std::uint32_t g = 0; g < part.groups; ++g) {
      for (std::uint32_t h = 0; h < part.groups; ++h) {
        if (g == h) continue;
        sink(Pair{{all[g], all[h]}, static_cast<std::uint32_t>(instance), part.term, g | h << 16});
      }
    }
  }

  void check_widths();
  void read_blocks(std::size_t t);
  void sort_pairs();
  void place_rows();
  void list_products();

  const Model& model_;
  std::span<const std::vector<SlotGroup>> groups_;
  NormalLimit limit_;
  BlockNumbers numbers_;
  NormalPlan plan_;
  std::vector<std::uint32_t> array_;  // by block
  std::vector<Part> parts_;
  ir::UnsetPagedVector<Pair> sorted_;  // by row, then column, then as instances come
  std::vector<std::size_t> row_;       // by block: its first pair
};

void NormalPlanner::check_widths() {
  for (const ParameterArray& array : model_.arrays) {
    if (array.width > codegen::kMaxBlockWidth)
      plan_.why = because(MatrixReason::wide_block, array.width);
  }
}

void NormalPlanner::read_blocks(std::size_t t) {
  const ir::Batch& batch = *model_.terms[t].batch;
  const std::vector<SlotGroup>& groups = groups_[t];
  if (batch.size() == 0 || groups.empty()) return;
  if (model_.terms[t].energy) return void(plan_.why = {MatrixReason::energies});
  if (groups.size() > kMostGroups) return void(plan_.why = {MatrixReason::many_blocks});
  if (groups.front().array == kScalars) return void(plan_.why = {MatrixReason::unlike_order});
  Part part{
      .term = static_cast<std::uint32_t>(t), .groups = groups.size(), .instances = batch.size()};
  part.blocks.resize(part.groups * part.instances);
  std::atomic<bool> twice = false;
  constexpr std::size_t kRows = 4096;
  ir::parallel_for(std::size_t{0}, (part.instances + kRows - 1) / kRows, [&](std::size_t piece) {
    const std::size_t first = piece * kRows, count = std::min(kRows, part.instances - first);
    std::vector<std::uint32_t> column(count);
    for (std::size_t g = 0; g < part.groups; ++g) {
      batch.copy_index_column(groups[g].slots.front(), first, column);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t block = numbers_.of(groups[g].array, column[i]);
        std::uint32_t* const all = &part.blocks[(first + i) * part.groups];
        if (std::find(all, all + g, block) != all + g) twice = true;
        all[g] = block;
      }
    }
  });
  if (twice) plan_.why = {MatrixReason::block_twice};
  parts_.push_back(std::move(part));
}

void NormalPlanner::sort_pairs() {
  std::vector<std::size_t> end;
  std::size_t instances = 0;
  std::uint64_t pairs = 0;
  for (const Part& part : parts_) {
    end.push_back(instances += part.instances);
    pairs += std::uint64_t{part.instances} * part.groups * (part.groups - 1);
  }
  if (pairs > 2 * kMostNormalProducts)
    return void(plan_.why = because(MatrixReason::many_products, pairs / 2));
  const auto blocks = static_cast<std::uint32_t>(array_.size());
  row_.assign(std::size_t{blocks} + 1, 0);
  if (pairs == 0) return;
  const auto emit = [&](std::size_t first, std::size_t count, auto sink) {
    auto at = static_cast<std::size_t>(std::ranges::upper_bound(end, first) - end.begin());
    for (std::size_t i = first; i < first + count; ++i) {
      while (i >= end[at]) ++at;
      each_pair(parts_[at], i - (end[at] - parts_[at].instances), sink);
    }
  };
  const Partition<Pair> partition(instances, blocks, emit);
  sorted_.resize(pairs);
  partition.each_bucket([&](std::span<const Pair> items, std::size_t first_item,
                            std::uint32_t first, std::uint32_t beyond) {
    std::vector<std::size_t> next(beyond - first + 1, first_item);  // of each row
    for (const Pair& pair : items) ++next[pair.key - first + 1];
    for (std::uint32_t b = first; b < beyond; ++b) {
      next[b - first + 1] += next[b - first] - first_item;
      row_[b + 1] = next[b - first + 1];
    }
    for (const Pair& pair : items) sorted_[next[pair.key - first]++] = pair;
    std::size_t from = first_item;
    for (std::uint32_t b = first; b < beyond; from = row_[++b]) {
      std::stable_sort(sorted_.data() + from, sorted_.data() + row_[b + 1],
                       [](const Pair& x, const Pair& y) { return x.value < y.value; });
    }
  });
}

void NormalPlanner::place_rows() {
  const auto blocks = static_cast<std::uint32_t>(array_.size());
  BlockRows& matrix = plan_.matrix = BlockRows(blocks);
  std::atomic<std::uint32_t> longest = 0, most = 0;
  std::atomic<std::uint64_t> count = blocks;
  const auto raise = [](std::atomic<std::uint32_t>& to, std::uint32_t value) {
    for (std::uint32_t now = to; now < value && !to.compare_exchange_weak(now, value);) {
    }
  };
  ir::parallel_for(0u, blocks, [&](std::uint32_t block) {
    std::uint32_t met = 0, largest = 0;
    matrix.add(block, block, width(block));
    each_meeting(block, [&](std::span<const Pair> pairs) {
      matrix.add(block, pairs.front().value, width(pairs.front().value));
      largest = std::max(largest, static_cast<std::uint32_t>(pairs.size()));
      ++met;
    });
    count += met;
    raise(longest, matrix.row(block).length);
    raise(most, largest);
  });
  plan_.blocks = count;
  if (longest > kLongestRow)
    return void(plan_.why = because(MatrixReason::long_row, longest.load()));
  if (most > kMostOfBlock)
    return void(plan_.why = because(MatrixReason::many_residuals, most.load()));
  if (!matrix.place([&](std::uint32_t block) { return width(block); }))
    return void(plan_.why = {MatrixReason::memory});
  if (const std::uint64_t bytes = matrix.bytes(limit_.number_bytes); bytes > limit_.most_bytes)
    return void(plan_.why = because(MatrixReason::large_blocks, bytes, limit_.most_bytes));
  ir::parallel_for(0u, blocks, [&](std::uint32_t block) {
    matrix.list(block, first_scalar(block), width(block), [&](const auto& add) {
      each_meeting(block, [&](std::span<const Pair> pairs) {
        add(first_scalar(pairs.front().value), width(pairs.front().value));
      });
    });
  });
}

/// Lists blocks by term and shape, in the order of their rows.
void NormalPlanner::list_products() {
  struct Block {
    std::uint32_t row = 0;
    std::size_t first = 0, last = 0;  // in sorted_
  };
  // Keyed by term and the arrays of row and column.
  std::map<std::array<std::uint32_t, 3>, std::vector<Block>> lists;
  for (std::uint32_t block = 0; block < array_.size(); ++block) {
    each_meeting(block, [&](std::span<const Pair> pairs) {
      if (pairs.front().value < block) return;
      const auto base = static_cast<std::size_t>(pairs.data() - sorted_.data());
      for (std::size_t first = 0, last = 0; first < pairs.size(); first = last) {
        while (last < pairs.size() && pairs[last].term == pairs[first].term) ++last;
        lists[{pairs[first].term, array_[block], array_[pairs[first].value]}].push_back(
            {block, base + first, base + last});
      }
    });
  }
  for (const auto& [key, list] : lists) {
    if (plan_.products.empty() || plan_.products.back().term != key[0])
      plan_.products.push_back({.term = key[0]});
    plan_.products.back().add(
        model_.arrays[key[1]].width, model_.arrays[key[2]].width, list,
        [&](const Block& block) {
          return plan_.matrix.location(block.row, sorted_[block.first].value);
        },
        [&](const Block& block) {
          return std::span(sorted_).subspan(block.first, block.last - block.first);
        });
  }
  for (BlockProducts& products : plan_.products) products.end();
}

}  // namespace

NormalPlan plan_normal_matrix(const Model& model, std::span<const std::vector<SlotGroup>> groups,
                              const NormalLimit& limit) {
  return NormalPlanner(model, groups, limit).make();
}

}  // namespace topograd::runtime
