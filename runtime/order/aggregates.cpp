// Balls in the graph of blocks that share residuals.
#include "aggregates.hpp"

#include "../../ir/batch/unset_vector.hpp"
#include "../../ir/machine/parallel.hpp"
#include "../model/model.hpp"
#include "../plan/plan.hpp"
#include "order.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace topograd::runtime {
namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max() / 4;

/// The blocks that each instance of a residual term touches, `width` of them.
struct Touched {
  std::uint32_t width = 0;
  std::vector<std::uint32_t> arrays;  // by position, kScalars where it differs
  ir::UnsetVector<std::uint32_t> blocks;

  std::size_t instances() const { return width == 0 ? 0 : blocks.size() / width; }
  std::span<const std::uint32_t> of(std::size_t i) const {
    return std::span(blocks).subspan(i * width, width);
  }
};

/// Calls work(begin, end) for ranges of n instances, on all threads.
template <class Work>
void each_instance_range(std::size_t n, const Work& work) {
  constexpr std::size_t kGrain = 1 << 12;
  ir::parallel_for(tbb::blocked_range<std::size_t>(0, n, kGrain),
                   [&](const auto& range) { work(range.begin(), range.end()); });
}

Touched blocks_of_term(const Term& term, const Model& model, const BlockNumbers& blocks) {
  Touched out;
  std::vector<std::uint32_t> slots;
  for (const SlotGroup& group : find_groups(*term.batch, model.arrays)) {
    slots.push_back(group.slots[0]);
    out.arrays.push_back(group.array);
  }
  out.width = static_cast<std::uint32_t>(slots.size());
  const std::size_t n = term.batch->size();
  out.blocks.resize(n * out.width);
  each_instance_range(n, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint32_t> column(end - begin);
    for (std::size_t k = 0; k < slots.size(); ++k) {
      term.batch->copy_index_column(slots[k], begin, column);
      for (std::size_t i = begin; i < end; ++i)
        out.blocks[i * out.width + k] = blocks.at(column[i - begin]);
    }
  });
  return out;
}

/// Finds arrays whose blocks never meet: every term has at most one of them, and another array.
std::vector<std::uint8_t> find_followers(std::span<const Touched> terms, const Model& model) {
  std::vector<std::uint8_t> follows(model.arrays.size(), 0);
  std::vector<std::size_t> order(model.arrays.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return model.arrays[a].blocks > model.arrays[b].blocks;
  });
  const auto leads = [&](const Touched& t, std::size_t besides) {
    return std::ranges::count_if(t.arrays, [&](std::uint32_t a) {
      return a == kScalars || (a != besides && follows[a] == 0);
    });
  };
  for (const std::size_t array : order) {
    bool alone = true, used = false;
    for (const Touched& t : terms) {
      const auto times = std::ranges::count(t.arrays, static_cast<std::uint32_t>(array));
      const bool scattered = std::ranges::count(t.arrays, kScalars) > 0;
      used = used || times > 0;
      alone = alone && !scattered && times <= 1 && (times == 0 || leads(t, array) > 0);
    }
    follows[array] = alone && used ? 1 : 0;
  }
  // If the leading blocks are not connected by themselves, all blocks lead.
  const bool connected =
      std::ranges::any_of(terms, [&](const Touched& t) { return leads(t, kScalars) > 1; });
  if (!connected) std::ranges::fill(follows, std::uint8_t{0});
  return follows;
}

/// Leading blocks that share an instance, as lists by block; hubs have empty lists.
class Graph {
 public:
  Graph(std::span<const Touched> terms, std::span<const std::uint8_t> leads)
      : start_(leads.size() + 1, 0) {
    std::vector<std::uint32_t> degree = count_neighbours(terms, leads);
    for (std::uint32_t& d : degree) d = d > kHub ? 0 : d;
    if (!connects(terms, degree)) return;
    std::partial_sum(degree.begin(), degree.end(), start_.begin() + 1);
    list_.resize(start_.back());
    std::vector<std::uint32_t> next(start_.begin(), start_.end() - 1);
    for (const Touched& t : terms) {
      for (std::size_t i = 0; i < t.instances(); ++i) {
        for (const std::uint32_t a : t.of(i)) {
          if (leads[a] == 0 || degree[a] == 0) continue;
          for (const std::uint32_t b : t.of(i)) {
            if (a != b && leads[b] != 0) list_[next[a]++] = b;
          }
        }
      }
    }
  }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(start_.size() - 1); }
  std::span<const std::uint32_t> of(std::uint32_t block) const {
    return std::span(list_).subspan(start_[block], start_[block + 1] - start_[block]);
  }

 private:
  /// Number of other leading blocks that share an instance, by block and counted once per instance;
  /// above kHub any number above it. Cost: the blocks of all instances, sorted by instance.
  static std::vector<std::uint32_t> count_neighbours(std::span<const Touched> terms,
                                                     std::span<const std::uint8_t> leads) {
    std::vector<std::uint32_t> degree(leads.size(), 0);
    const auto add = [&](std::uint32_t block, std::uint64_t pairs) {
      const std::atomic_ref<std::uint32_t> sum(degree[block]);
      if (sum.load(std::memory_order_relaxed) > kHub) return;
      sum.fetch_add(static_cast<std::uint32_t>(std::min<std::uint64_t>(pairs, kHub + 1)),
                    std::memory_order_relaxed);
    };
    for (const Touched& t : terms) {
      each_instance_range(t.instances(), [&](std::size_t begin, std::size_t end) {
        std::vector<std::uint32_t> leading;
        for (std::size_t i = begin; i < end; ++i) {
          leading.clear();
          for (const std::uint32_t a : t.of(i)) {
            if (leads[a] != 0) leading.push_back(a);
          }
          std::ranges::sort(leading);
          for (std::size_t first = 0, last = 0; first < leading.size(); first = last) {
            const std::uint32_t a = leading[first];
            while (last < leading.size() && leading[last] == a) ++last;
            add(a, (last - first) * (leading.size() - (last - first)));
          }
        }
      });
    }
    return degree;
  }
  /// True if two blocks that are no hubs share an instance. Those of a scene, points and cameras,
  /// do not where all cameras are hubs.
  static bool connects(std::span<const Touched> terms, std::span<const std::uint32_t> degree) {
    std::atomic<bool> found = false;
    for (const Touched& t : terms) {
      each_instance_range(t.instances(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end && !found.load(std::memory_order_relaxed); ++i) {
          const auto counts = [&](std::uint32_t block) { return degree[block] != 0; };
          const auto blocks = t.of(i);
          const auto first = std::ranges::find_if(blocks, counts);
          if (std::any_of(first, blocks.end(),
                          [&](std::uint32_t block) { return block != *first && counts(block); }))
            found = true;
        }
      });
    }
    return found;
  }

  std::vector<std::uint32_t> start_, list_;
};

/// Blocks in breadth-first order without those of small components.
struct Visit {
  std::vector<std::uint32_t> order;
  std::uint32_t components = 0;
};
Visit visit(const Graph& graph) {
  Visit out;
  std::vector<std::uint32_t>& queue = out.order;
  std::vector<std::uint8_t> seen(graph.blocks(), 0);
  for (std::uint32_t root = 0; root < graph.blocks(); ++root) {
    if (seen[root] != 0 || graph.of(root).empty()) continue;
    const std::size_t first = queue.size();
    seen[root] = 1;
    queue.push_back(root);
    for (std::size_t head = first; head < queue.size(); ++head) {
      for (const std::uint32_t b : graph.of(queue[head])) {
        if (seen[b] != 0 || graph.of(b).empty()) continue;
        seen[b] = 1;
        queue.push_back(b);
      }
    }
    if (queue.size() - first < kSmallestAggregate) {
      queue.resize(first);
    } else {
      ++out.components;
    }
  }
  return out;
}

/// Finds blocks that are more than `radius` apart, each as early in `order` as possible. If there
/// are more than `most`, it stops and returns false.
bool find_seeds(const Graph& graph, std::span<const std::uint32_t> order, std::uint32_t radius,
                std::uint32_t most, std::vector<std::uint32_t>& seeds) {
  std::vector<std::uint32_t> distance(graph.blocks(), kFar), queue;
  seeds.clear();
  for (const std::uint32_t seed : order) {
    if (distance[seed] <= radius) continue;
    if (seeds.size() == most) return false;
    seeds.push_back(seed);
    distance[seed] = 0;
    queue.assign(1, seed);
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const std::uint32_t next = distance[queue[head]] + 1;
      if (next > radius) break;
      for (const std::uint32_t b : graph.of(queue[head])) {
        if (distance[b] <= next || graph.of(b).empty()) continue;
        distance[b] = next;
        queue.push_back(b);
      }
    }
  }
  return true;
}

/// Assigns every block to the nearest seed, ties to the first.
void assign(const Graph& graph, std::span<const std::uint32_t> seeds,
            std::vector<std::uint32_t>& of_block) {
  std::vector<std::uint32_t> queue(seeds.begin(), seeds.end());
  of_block.assign(graph.blocks(), kNoAggregate);
  for (std::uint32_t k = 0; k < seeds.size(); ++k) of_block[seeds[k]] = k;
  // Blocks of one distance are in the queue in the order of their seeds.
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const std::uint32_t b : graph.of(queue[head])) {
      if (of_block[b] != kNoAggregate || graph.of(b).empty()) continue;
      of_block[b] = of_block[queue[head]];
      queue.push_back(b);
    }
  }
}

/// Finds the smallest radius with at most `most` aggregates; 0 if there are more components.
std::uint32_t grow(const Graph& graph, std::uint32_t most, std::vector<std::uint32_t>& of_block) {
  const auto [order, components] = visit(graph);
  most = std::min(most, static_cast<std::uint32_t>(order.size() / kSmallestAggregate));
  of_block.assign(graph.blocks(), kNoAggregate);
  if (components == 0 || components > most) return 0;
  std::vector<std::uint32_t> seeds, trial;
  const auto fits = [&](std::uint32_t radius) {
    if (!find_seeds(graph, order, radius, most, trial)) return false;
    seeds.swap(trial);
    return true;
  };
  std::uint32_t low = 0, high = 1;  // low gives too many
  while (!fits(high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  assign(graph, seeds, of_block);
  return static_cast<std::uint32_t>(seeds.size());
}

/// Assigns followers to the aggregate of the first leading block in one of their instances.
void follow(std::span<const Touched> terms, std::span<const std::uint8_t> leads,
            std::vector<std::uint32_t>& of_block) {
  for (const Touched& t : terms) {
    for (std::size_t i = 0; i < t.instances(); ++i) {
      std::uint32_t found = kNoAggregate;
      for (const std::uint32_t b : t.of(i)) {
        if (found == kNoAggregate && leads[b] != 0) found = of_block[b];
      }
      for (const std::uint32_t b : t.of(i)) {
        if (leads[b] == 0 && of_block[b] == kNoAggregate) of_block[b] = found;
      }
    }
  }
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> find_edges(
    std::span<const Touched> terms, std::span<const std::uint32_t> of_block) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::vector<std::uint32_t> touched;
  const auto tidy = [&] {
    std::ranges::sort(edges);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  };
  std::size_t limit = std::size_t{1} << 16;
  for (const Touched& t : terms) {
    for (std::size_t i = 0; i < t.instances(); ++i) {
      touched.clear();
      for (const std::uint32_t a : t.of(i)) {
        if (of_block[a] != kNoAggregate) touched.push_back(of_block[a]);
      }
      std::ranges::sort(touched);
      touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
      for (std::size_t from = 0; from < touched.size(); ++from) {
        for (std::size_t to = from + 1; to < touched.size(); ++to)
          edges.emplace_back(touched[from], touched[to]);
      }
      if (edges.size() < limit) continue;
      tidy();
      limit = std::max(limit, 2 * edges.size());
    }
  }
  tidy();
  return edges;
}

}  // namespace

Aggregates find_aggregates(const Model& model, const MostAggregates& most) {
  const BlockNumbers blocks(model.arrays);
  std::vector<Touched> terms;
  for (const Term& term : model.terms) {
    if (!term.energy && term.batch->size() > 0)
      terms.push_back(blocks_of_term(term, model, blocks));
  }
  Aggregates out;
  out.follows = find_followers(terms, model);
  std::vector<std::uint8_t> leads;
  leads.reserve(blocks.count());
  for (std::size_t a = 0; a < model.arrays.size(); ++a) {
    leads.insert(leads.end(), model.arrays[a].blocks, out.follows[a] == 0 ? 1 : 0);
  }
  const Graph graph(terms, leads);
  out.count = grow(graph, most(out.follows), out.of_block);
  if (out.count == 0) return out;
  follow(terms, leads, out.of_block);
  out.edges = find_edges(terms, out.of_block);
  return out;
}

}  // namespace topograd::runtime
