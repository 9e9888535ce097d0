// Neighbour lists, breadth-first orders of blocks, counting sorts of instances.
#include "order.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../../ir/batch/row_storage.hpp"
#include "../../ir/batch/unset_vector.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/parallel.hpp"
#include "../../ir/machine/platform.hpp"
#include "../model/model.hpp"
#include "../plan/partition.hpp"
#include "../plan/plan.hpp"

namespace topograd::runtime {
namespace {

/// Each pair of blocks of each instance, in both directions.
Partition<> pairs_by_block(std::span<const TouchedBlocks> terms, std::uint32_t blocks) {
  std::vector<std::size_t> end;
  std::size_t instances = 0;
  for (const TouchedBlocks& t : terms) end.push_back(instances += t.instances());
  return Partition<>(instances, blocks, [&, end](std::size_t first, std::size_t count, auto sink) {
    auto term = static_cast<std::size_t>(std::ranges::upper_bound(end, first) - end.begin());
    for (std::size_t i = first; i < first + count; ++i) {
      while (i >= end[term]) ++term;
      const TouchedBlocks& t = terms[term];
      const auto touched = t.of(i - (end[term] - t.instances()));
      for (std::size_t a = 0; a < touched.size(); ++a) {
        for (std::size_t b = 0; b < touched.size(); ++b) {
          if (a != b) sink(Keyed{touched[a], touched[b]});
        }
      }
    }
  });
}

/// Below this many scalars everything fits a cache.
constexpr std::uint64_t kSmall = std::uint64_t{1} << 16;
/// The order found must shorten the mean distance of an instance's blocks by this factor.
constexpr double kWorthIt = 4;
/// A mesh in good order has neighbours about √blocks apart: below √(kGood x blocks) nothing is
/// gained.
constexpr double kGood = 64;

/// Calls work(first, count) for pieces of 0 .. n, on all threads.
template <class Work>
void each_piece(std::size_t n, Work work) {
  constexpr std::size_t kPiece = std::size_t{1} << 15;
  ir::parallel_for(std::size_t{0}, (n + kPiece - 1) / kPiece,
                   [&](std::size_t k) { work(k * kPiece, std::min(kPiece, n - k * kPiece)); });
}

/// Numbers with random access.
using Numbers = ir::PagedVector<std::uint32_t>;

/// Mean distance between blocks of one instance, or between successive instances if that is larger,
/// in a sample of a term's instances.
double sampled_spread(const Term& term, const BlockNumbers& blocks) {
  constexpr std::size_t kSamples = 2048;
  const ir::Batch& batch = *term.batch;
  if (batch.size() < 2) return 0;
  const auto block_at = [&](std::size_t row, std::uint32_t slot) {
    const std::uint32_t index = batch.index(row, slot);
    const std::size_t array = blocks.array_of_scalar(index);
    return static_cast<double>(blocks.of(array, index) - blocks.first(array));
  };
  double inside = 0, step = 0;
  const std::size_t stride = std::max<std::size_t>((batch.size() - 1) / kSamples, 1);
  std::size_t count = 0;
  for (std::size_t row = 0; row + 1 < batch.size(); row += stride, ++count) {
    const double first = block_at(row, 0);
    double farthest = 0;
    for (std::uint32_t slot = 1; slot < batch.parameter_columns(); ++slot) {
      farthest = std::max(farthest, std::abs(block_at(row, slot) - first));
    }
    inside += farthest;
    step += std::abs(block_at(row + 1, 0) - first);
  }
  return std::max(inside, step) / static_cast<double>(count);
}

/// Mean of `measure` over all items, weighted by size: four anchors at the corners of a mesh do not
/// make it a shuffled one.
template <class Item, class Size, class Measure>
double weighted_mean(std::span<const Item> items, Size size, Measure measure) {
  double sum = 0, weight = 0;
  for (const Item& item : items) {
    const auto n = static_cast<double>(size(item));
    if (n > 0) sum += n * measure(item);
    weight += n;
  }
  return weight > 0 ? sum / weight : 0;
}

bool looks_local(const Model& model, const BlockNumbers& blocks) {
  const double mean = weighted_mean(
      std::span<const Term>(model.terms), [](const Term& t) { return t.batch->size(); },
      [&](const Term& t) { return sampled_spread(t, blocks); });
  return mean * mean < kGood * blocks.count();
}

/// Blocks that a term's instances touch; empty if its coordinates change between instances.
TouchedBlocks touched_blocks(const Term& term, const Model& model, const BlockNumbers& blocks) {
  const std::vector<SlotGroup> groups = find_groups(*term.batch, model.arrays);
  if (groups.empty() || groups.front().array == kScalars) return {};
  TouchedBlocks out{groups, {}};
  const std::size_t width = out.width();
  out.blocks.resize(term.batch->size() * width);
  each_piece(term.batch->size(), [&](std::size_t first, std::size_t count) {
    std::vector<std::uint32_t> column(count);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      term.batch->copy_index_column(groups[g].slots[0], first, column);
      for (std::size_t i = 0; i < count; ++i) {
        out.blocks[(first + i) * width + g] = blocks.of(groups[g].array, column[i]);
      }
    }
  });
  return out;
}

/// A flag for each block, small enough to stay in a cache.
class Flags {
 public:
  explicit Flags(std::uint32_t count) : words_(count / kBits + 1, 0) {}
  /// Sets the flag; returns its old value.
  bool test_and_set(std::uint32_t k) {
    std::uint64_t& word = words_[k / kBits];
    const std::uint64_t bit = std::uint64_t{1} << k % kBits;
    const bool was = (word & bit) != 0;
    word |= bit;
    return was;
  }

 private:
  static constexpr std::uint32_t kBits = 64;
  std::vector<std::uint64_t> words_;
};

/// Appends blocks that are met together, each next to a neighbour if possible, so that blocks of a
/// front follow it. Too many at once are appended unchained, because the search would cost too
/// much.
void append_chained(const Neighbours& neighbours, std::vector<std::uint32_t>& met, Numbers& queue,
                    std::size_t& size) {
  constexpr std::size_t kMost = 8;
  while (met.size() > 1 && met.size() <= kMost) {
    const auto beside = neighbours.of(queue[size - 1]);
    const auto found = std::ranges::find_first_of(met, beside);
    const auto next = found == met.end() ? met.begin() : found;
    queue[size++] = *next;
    met.erase(next);
  }
  for (const std::uint32_t b : met) queue[size++] = b;
}

/// Blocks in breadth-first order, each component from its first block. The lists of waiting blocks
/// are prefetched: otherwise the search would wait for memory at each block.
Numbers visit(const Neighbours& neighbours, std::uint32_t count) {
  constexpr std::size_t kAhead = 16;
  Numbers queue(count);
  std::size_t size = 0;
  std::vector<std::uint32_t> met;
  Flags seen(count);
  for (std::uint32_t root = 0; root < count; ++root) {
    if (seen.test_and_set(root)) continue;
    queue[size++] = root;
    for (std::size_t head = size - 1; head < size; ++head) {
      if (head + 2 * kAhead < size) neighbours.expect_start(queue[head + 2 * kAhead]);
      if (head + kAhead < size) neighbours.expect_list(queue[head + kAhead]);
      met.clear();
      for (std::uint32_t b : neighbours.of(queue[head])) {
        if (!seen.test_and_set(b)) met.push_back(b);
      }
      append_chained(neighbours, met, queue, size);
    }
  }
  return queue;
}

/// New number of each block: blocks stay in their array, in the order of the visit.
Numbers rank_in_arrays(std::span<const std::uint32_t> visited, const Model& model,
                       const BlockNumbers& blocks) {
  Numbers rank(visited.size());
  if (model.arrays.size() == 1) {
    each_piece(visited.size(), [&](std::size_t first, std::size_t count) {
      for (std::size_t k = first; k < first + count; ++k)
        rank[visited[k]] = static_cast<std::uint32_t>(k);
    });
    return rank;
  }
  std::vector<std::uint32_t> next;
  for (std::size_t a = 0; a < model.arrays.size(); ++a) next.push_back(blocks.first(a));
  for (std::uint32_t b : visited) {
    std::size_t array = model.arrays.size() - 1;
    while (blocks.first(array) > b) --array;
    rank[b] = next[array]++;
  }
  return rank;
}

/// Replaces old numbers by new ones.
void renumber(std::span<TouchedBlocks> terms, std::span<const std::uint32_t> rank) {
  for (TouchedBlocks& t : terms) {
    each_piece(t.blocks.size(), [&](std::size_t first, std::size_t count) {
      for (std::uint32_t& b : std::span(t.blocks).subspan(first, count)) b = rank[b];
    });
  }
}

/// Mean distance between the blocks of an instance for which `counts` is true. Blocks of two arrays
/// are compared by their positions in them: no order moves the arrays.
template <class Counts>
double mean_distance(std::span<const TouchedBlocks> terms, const BlockNumbers& numbers,
                     Counts counts) {
  // Integer sums do not depend on the threads.
  std::atomic<std::uint64_t> sum = 0, pairs = 0;
  for (const TouchedBlocks& t : terms) {
    std::vector<std::uint32_t> offset;  // by group, of its array
    for (const SlotGroup& group : t.groups) offset.push_back(numbers.first(group.array));
    each_piece(t.instances(), [&](std::size_t first, std::size_t count) {
      std::uint64_t distance = 0, found = 0;
      for (std::size_t i = first; i < first + count; ++i) {
        const auto blocks = t.of(i);
        for (std::size_t k = 1; k < blocks.size(); ++k) {
          if (!counts(blocks[k]) || !counts(blocks[0])) continue;
          const std::uint32_t a = blocks[k] - offset[k], b = blocks[0] - offset[0];
          distance += a > b ? a - b : b - a;
          ++found;
        }
      }
      sum += distance;
      pairs += found;
    });
  }
  return pairs == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(pairs);
}

/// Mean distance between the first blocks of one instance and the next.
double mean_step(const TouchedBlocks& t) {
  if (t.instances() < 2) return 0;
  std::atomic<std::uint64_t> sum = 0;
  each_piece(t.instances() - 1, [&](std::size_t first, std::size_t count) {
    std::uint64_t distance = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      const std::uint32_t a = t.of(i)[0], b = t.of(i + 1)[0];
      distance += a > b ? a - b : b - a;
    }
    sum += distance;
  });
  return static_cast<double>(sum) / static_cast<double>(t.instances() - 1);
}

/// An instance, keyed by the smallest of its blocks.
struct Row : Keyed {
  std::uint32_t largest = 0;
};

/// Sorts instances by their smallest block, then by the largest: neighbouring work items, each of
/// which sums the instances of its block in turn, then read neighbouring blocks.
std::vector<std::uint32_t> sort_rows(const TouchedBlocks& t, std::uint32_t blocks) {
  std::vector<std::uint32_t> rows(t.instances());
  const auto emit = [&](std::size_t first, std::size_t count, auto sink) {
    for (std::size_t i = first; i < first + count; ++i) {
      const auto [least, largest] = std::ranges::minmax(t.of(i));
      sink(Row{{least, static_cast<std::uint32_t>(i)}, largest});
    }
  };
  const Partition<Row> by_key(rows.size(), blocks, emit);
  by_key.each_bucket([&](std::span<const Row> items, std::size_t first_item, std::uint32_t first,
                         std::uint32_t beyond) {
    if (items.empty()) return;
    std::vector<std::size_t> next(beyond - first + 1, 0);
    for (const Row& item : items) ++next[item.key - first + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    std::vector<Row> sorted(items.size());
    for (const Row& item : items) sorted[next[item.key - first]++] = item;
    for (std::size_t k = 0, begin = 0; k < beyond - first; begin = next[k++]) {
      std::ranges::sort(std::span(sorted).subspan(begin, next[k] - begin), {},
                        [](const Row& row) { return std::pair(row.largest, row.value); });
    }
    for (std::size_t k = 0; k < sorted.size(); ++k) rows[first_item + k] = sorted[k].value;
  });
  return rows;
}

std::vector<std::uint32_t> scalar_positions(const Model& model, const BlockNumbers& blocks,
                                            std::span<const std::uint32_t> rank) {
  std::vector<std::uint32_t> position(model.scalars);
  for (std::size_t a = 0; a < model.arrays.size(); ++a) {
    const ParameterArray& array = model.arrays[a];
    each_piece(array.blocks, [&](std::size_t first, std::size_t count) {
      for (std::uint64_t b = first; b < first + count; ++b) {
        const std::uint64_t to = rank[blocks.first(a) + b] - blocks.first(a);
        for (std::uint32_t k = 0; k < array.width; ++k) {
          position[array.offset + b * array.width + k] =
              static_cast<std::uint32_t>(array.offset + to * array.width + k);
        }
      }
    });
  }
  return position;
}

/// True if the environment asks for the present order.
bool keeps_order() {
  const std::string asked = platform::environment(kOrderVariable).value_or(kFoundOrder);
  if (asked == kFoundOrder || asked == kKeptOrder) return asked == kKeptOrder;
  throw Error(ErrorCode::InvalidArgument, std::string(kOrderVariable) + ": expected " +
                                              kFoundOrder + " or " + kKeptOrder + ", got \"" +
                                              asked + "\"");
}

}  // namespace

Neighbours::Neighbours(std::span<const TouchedBlocks> terms, std::uint32_t blocks)
    : start_(std::size_t{blocks} + 1, 0) {
  const Partition<> pairs = pairs_by_block(terms, blocks);
  std::atomic<bool> hubs = false;
  pairs.each_bucket(
      [&](std::span<const Keyed> items, std::size_t, std::uint32_t first, std::uint32_t beyond) {
        for (const Keyed& item : items) ++start_[item.key + 1];
        for (std::uint32_t b = first; b < beyond; ++b) {
          if (start_[b + 1] <= kHub) continue;
          start_[b + 1] = 0;
          hubs = true;
        }
      });
  hubs_ = hubs;
  std::partial_sum(start_.begin(), start_.end(), start_.begin());
  list_.resize(start_.back());
  pairs.each_bucket(
      [&](std::span<const Keyed> items, std::size_t, std::uint32_t first, std::uint32_t beyond) {
        std::vector<std::uint32_t> next(start_.begin() + first, start_.begin() + beyond);
        for (const Keyed& item : items) {
          std::uint32_t& to = next[item.key - first];
          if (to < start_[item.key + 1]) list_[to++] = item.value;
        }
      });
}

ModelOrder find_order(const Model& model) {
  if (keeps_order()) return {};
  if (model.scalars < kSmall) return {};
  const BlockNumbers blocks(model.arrays);
  if (looks_local(model, blocks)) return {};
  std::vector<TouchedBlocks> terms;
  for (const Term& term : model.terms) {
    terms.push_back(touched_blocks(term, model, blocks));
    if (terms.back().width() == 0 && term.batch->size() > 0) return {};
  }
  const double step = weighted_mean(
      std::span<const TouchedBlocks>(terms), [](const TouchedBlocks& t) { return t.instances(); },
      mean_step);
  const Neighbours neighbours(terms, blocks.count());
  const Numbers rank = rank_in_arrays(visit(neighbours, blocks.count()), model, blocks);
  std::vector<bool> hub(neighbours.have_hubs() ? blocks.count() : 0);
  const auto no_hub = [&](std::uint32_t b) { return hub.empty() || !hub[b]; };
  for (std::uint32_t b = 0; b < hub.size(); ++b) hub[b] = neighbours.of(b).empty();
  const double before = std::max(step, mean_distance(terms, blocks, no_hub));
  renumber(terms, rank);
  for (std::uint32_t b = 0; b < hub.size(); ++b) hub[rank[b]] = neighbours.of(b).empty();
  if (mean_distance(terms, blocks, no_hub) * kWorthIt > before) return {};
  ModelOrder order;
  order.position = scalar_positions(model, blocks, rank);
  for (const TouchedBlocks& t : terms) order.rows.push_back(sort_rows(t, blocks.count()));
  order.touched = std::move(terms);
  return order;
}

namespace {

/// Copies rows of a batch in another order, on all threads. The fields of a row are copied
/// together, so that each row needs one random read.
class Picker {
 public:
  Picker(const ir::Batch& source, std::span<const std::uint32_t> rows, ir::Batch& out)
      : source_(source), rows_(rows), blocks_(out.append_rows(rows.size())) {}

  /// Copies indices in the new numbering of blocks.
  void pick_parameters(const TouchedBlocks& touched, const Model& model) {
    struct To {
      std::uint32_t width, offset, first_block;
    };
    const BlockNumbers numbers(model.arrays);
    std::vector<To> to;
    for (const SlotGroup& group : touched.groups) {
      const ParameterArray& array = model.arrays[group.array];
      to.push_back(
          {array.width, static_cast<std::uint32_t>(array.offset), numbers.first(group.array)});
    }
    each_block([&](const ir::Batch::NewRows& out, std::span<const std::uint32_t> from) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        const auto blocks = touched.of(from[i]);
        for (std::size_t g = 0; g < to.size(); ++g) {
          const std::uint32_t x = to[g].offset + (blocks[g] - to[g].first_block) * to[g].width;
          const SlotGroup& group = touched.groups[g];
          for (std::size_t k = 0; k < group.slots.size(); ++k)
            out.index[group.slots[k] * out.stride + i] = x + group.coordinates[k];
        }
      }
    });
  }

  void pick_index(std::uint32_t column) {
    each_block([&](const ir::Batch::NewRows& out, std::span<const std::uint32_t> from) {
      for (std::size_t i = 0; i < from.size(); ++i)
        out.index[column * out.stride + i] = source_.index(from[i], column);
    });
  }

  /// Copies data and residual rows.
  void pick_numbers() {
    const std::size_t columns = source_.data_columns(), width = columns + 1;
    ir::UnsetPagedVector<std::uint64_t> packed(source_.size() * width);
    each_source([&](std::size_t first, std::size_t count) {
      std::vector<double> numbers(count);
      for (std::uint32_t c = 0; c < columns; ++c) {
        if (source_.resident(c)) continue;
        source_.copy_data_column(c, first, numbers);
        for (std::size_t i = 0; i < count; ++i)
          packed[(first + i) * width + c] = std::bit_cast<std::uint64_t>(numbers[i]);
      }
      for (std::size_t i = 0; i < count; ++i)
        packed[(first + i) * width + columns] = source_.residual_row(first + i);
    });
    each_block([&](const ir::Batch::NewRows& out, std::span<const std::uint32_t> from) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        const std::uint64_t* const row = &packed[from[i] * width];
        for (std::size_t c = 0; c < columns; ++c)
          out.data[c * out.stride + i] = std::bit_cast<double>(row[c]);
        out.row[i] = row[columns];
      }
    });
  }

 private:
  template <class Work>
  void each_block(Work work) {
    ir::parallel_for(std::size_t{0}, blocks_.size(), [&](std::size_t b) {
      work(blocks_[b], rows_.subspan(blocks_[b].first, blocks_[b].count));
    });
  }
  template <class Work>
  void each_source(Work work) {
    constexpr std::size_t kRows = ir::Batch::kBlockRows;
    ir::parallel_for(std::size_t{0}, (source_.size() + kRows - 1) / kRows, [&](std::size_t b) {
      work(b * kRows, std::min(kRows, source_.size() - b * kRows));
    });
  }

  const ir::Batch& source_;
  std::span<const std::uint32_t> rows_;
  std::vector<ir::Batch::NewRows> blocks_;
};

/// Reorders a device-resident column: its numbers stay, and its rows get new indices.
bool pick_resident(const ir::Batch& source, std::uint32_t column,
                   std::span<const std::uint32_t> rows, ir::Batch& ordered) {
  const ir::ResidentColumn* const from = source.resident(column);
  if (!from) return false;
  const ir::ResidentColumn* const before = ordered.resident(column);
  if (before && before->indices_there == from->indices) {
    ordered.set_resident(column, {from->numbers, before->indices, from->indices});
    return true;
  }
  auto indices = std::make_shared<std::vector<std::uint32_t>>(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) (*indices)[i] = (*from->indices)[rows[i]];
  ordered.set_resident(column, {from->numbers, std::move(indices), from->indices});
  return true;
}

std::unique_ptr<ir::Batch> pick_rows(const ir::Batch& source, const TouchedBlocks& touched,
                                     std::span<const std::uint32_t> rows, const Model& model) {
  auto batch = std::make_unique<ir::Batch>(source.parameter_columns(), source.uniform_columns(),
                                           source.data_columns());
  if (rows.empty()) return batch;
  Picker picker(source, rows, *batch);
  picker.pick_parameters(touched, model);
  for (std::uint32_t c = source.parameter_columns(); c < source.index_columns(); ++c)
    picker.pick_index(c);
  picker.pick_numbers();
  for (std::uint32_t c = 0; c < source.data_columns(); ++c) pick_resident(source, c, rows, *batch);
  return batch;
}

}  // namespace

namespace {

/// Calls work(k) for 0 .. n - 1, on all threads if n is large.
template <class Work>
void each_scalar(std::size_t n, Work work) {
  constexpr std::size_t kGrain = std::size_t{1} << 14;
  ir::parallel_pieces(n, kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) work(k);
  });
}

}  // namespace

void ModelOrder::apply(std::span<const double> x, std::span<double> ordered) const {
  each_scalar(position.size(), [&](std::size_t k) { ordered[position[k]] = x[k]; });
}

void ModelOrder::undo(std::span<const double> ordered, std::span<double> x) const {
  each_scalar(position.size(), [&](std::size_t k) { x[k] = ordered[position[k]]; });
}

OrderedModel reorder(const Model& model, ModelOrder& order) {
  OrderedModel out{model, {}};
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    out.batches.push_back(pick_rows(*model.terms[t].batch, order.touched[t], order.rows[t], model));
    out.model.terms[t].batch = out.batches.back().get();
  }
  order.touched = {};
  for (std::size_t k = 0; k < model.constant.size(); ++k) {
    out.model.constant[order.position[k]] = model.constant[k];
  }
  if (!model.lower.empty()) order.apply(model.lower, out.model.lower);
  if (!model.upper.empty()) order.apply(model.upper, out.model.upper);
  if (model.manifolds) {
    auto manifolds = std::make_shared<Manifolds>(*model.manifolds);
    for (ManifoldBlocks& manifold_blocks : manifolds->all) {
      for (std::uint32_t& first : manifold_blocks.blocks) first = order.position[first];
      std::ranges::sort(manifold_blocks.blocks);
    }
    out.model.manifolds = std::move(manifolds);
  }
  return out;
}

void refresh_data(const ir::Batch& source, std::span<const std::uint32_t> rows, ir::Batch& ordered,
                  bool own) {
  for (std::uint32_t k = 0; k < source.data_columns(); ++k) {
    if (pick_resident(source, k, rows, ordered) || !own) continue;
    ordered.forget_resident(k);
    for (std::size_t i = 0; i < rows.size(); ++i) ordered.set_data(i, k, source.data(rows[i], k));
  }
}

}  // namespace topograd::runtime
