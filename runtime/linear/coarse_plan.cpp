// Balls in the graph of blocks, vectors on them, their colours, and when a coarse space is made.
#include "coarse_plan.hpp"

#include "../../ir/batch/unset_vector.hpp"
#include "../../ir/machine/parallel.hpp"
#include "../model/model.hpp"
#include "../order/order.hpp"
#include "../plan/plan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <numeric>
#include <set>
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

/// Least instances of a thread's piece.
constexpr std::size_t kGrain = 1 << 12;

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
  ir::parallel_pieces(n, kGrain, [&](std::size_t begin, std::size_t end) {
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
      ir::parallel_pieces(t.instances(), kGrain, [&](std::size_t begin, std::size_t end) {
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
      ir::parallel_pieces(t.instances(), kGrain, [&](std::size_t begin, std::size_t end) {
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

namespace {

/// Vectors of one leading array: `width` constants, then its rotations.
struct Family {
  std::size_t array = 0;
  std::uint32_t first = 0;  ///< number of the first of its vectors
  std::uint32_t width = 0, rotations = 0;
};

std::uint32_t rotations_of(std::uint32_t width) { return width == 3 ? 3 : width == 2 ? 1 : 0; }

/// Field of rotation r at y: coordinate c is sign · y[from], or 0 if sign is 0.
struct Turn {
  std::uint32_t from = 0;
  int sign = 0;
};
Turn turn(std::uint32_t width, std::uint32_t r, std::uint32_t c) {
  if (width == 2) return c == 0 ? Turn{1, -1} : Turn{0, 1};
  if (c == r) return {};
  return {3 - r - c, (c + 3 - r) % 3 == 1 ? -1 : 1};  // e_r × y
}

std::vector<Family> find_families(const Model& model, std::span<const std::uint8_t> follows,
                                  std::uint32_t& functions) {
  std::vector<Family> families;
  const auto collect = [&](bool rotate) {
    families.clear();
    functions = 0;
    for (std::size_t a = 0; a < model.arrays.size(); ++a) {
      if (follows[a] != 0) continue;
      const std::uint32_t width = model.arrays[a].width;
      const std::uint32_t rotations = rotate ? rotations_of(width) : 0;
      families.push_back({a, functions, width, rotations});
      functions += width + rotations;
    }
  };
  collect(true);
  if (functions > kMostFunctions) collect(false);
  return families;
}

using Point = std::array<double, 3>;

class CoarsePlanner {
 public:
  CoarsePlanner(const Model& model, std::span<const double> x, CoarsePlan& plan)
      : model_(model), x_(x), plan_(plan) {}

  void run() {
    aggregates_ = find_aggregates(model_, [&](std::span<const std::uint8_t> follows) {
      families_ = find_families(model_, follows, plan_.functions);
      const bool fits = plan_.functions > 0 && plan_.functions <= kMostFunctions;
      return fits ? kMostCoarse / plan_.functions : 0;
    });
    if (aggregates_.count < 2) {
      plan_.why = {plan_.functions > kMostFunctions ? PreconditionerReason::wide_blocks
                                                    : PreconditionerReason::few_connections};
      return;
    }
    plan_.aggregates = aggregates_.count;
    find_colours();
    if (plan_.products() > kMostProbes) {
      plan_.why = {PreconditionerReason::many_connections};
      plan_.aggregates = 0;
      return;
    }
    list_entries();
    plan_.arrays_follow = aggregates_.follows;
    fill();
    describe();
  }

  /// Centres an existing plan.
  void centre() {
    families_ = find_families(model_, plan_.arrays_follow, plan_.functions);
    for (const std::uint32_t scalar : plan_.scalars) {
      const auto after =
          std::ranges::upper_bound(model_.arrays, scalar, {}, &ParameterArray::offset);
      const auto array = std::prev(after);
      arrays_.push_back(static_cast<std::size_t>(array - model_.arrays.begin()));
      coordinates_.push_back(static_cast<std::uint32_t>((scalar - array->offset) % array->width));
    }
    fill();
  }

 private:
  void fill() {
    find_centres();
    fill_vectors();
    fill_changes();
  }

  void find_colours() {
    const std::uint32_t n = plan_.aggregates;
    std::vector<std::vector<std::uint32_t>> near(n);
    for (const auto& [a, b] : aggregates_.edges) {
      near[a].push_back(b);
      near[b].push_back(a);
    }
    plan_.answers = std::ranges::find(aggregates_.follows, 1) != aggregates_.follows.end();
    plan_.colour.assign(n, kNoAggregate);
    for (std::uint32_t g = 0; g < n; ++g) {
      std::set<std::uint32_t> taken;
      for (const std::uint32_t a : near[g]) {
        taken.insert(plan_.colour[a]);
        for (const std::uint32_t b : near[a]) taken.insert(plan_.colour[b]);
      }
      std::uint32_t colour = 0;
      while (taken.contains(colour)) ++colour;
      plan_.colour[g] = colour;
      plan_.colours = std::max(plan_.colours, colour + 1);
    }
    plan_.sources.assign(std::size_t{plan_.colours} * n, kNoAggregate);
    for (std::uint32_t g = 0; g < n; ++g) {
      plan_.sources[std::size_t{plan_.colour[g]} * n + g] = g;
      for (const std::uint32_t a : near[g]) plan_.sources[std::size_t{plan_.colour[a]} * n + g] = a;
    }
  }

  bool is_fixed(std::uint64_t scalar) const {
    return !model_.constant.empty() && model_.constant[scalar] != 0;
  }

  /// Calls f(scalar, array, coordinate, aggregate) for all free scalars of aggregates.
  template <class F>
  void for_scalars(const F& f) const {
    std::size_t block = 0;
    for (std::size_t a = 0; a < model_.arrays.size(); ++a) {
      const ParameterArray& array = model_.arrays[a];
      for (std::uint64_t b = 0; b < array.blocks; ++b, ++block) {
        const std::uint32_t home = aggregates_.of_block[block];
        if (home == kNoAggregate) continue;
        for (std::uint32_t c = 0; c < array.width; ++c) {
          const std::uint64_t scalar = array.offset + b * array.width + c;
          if (!is_fixed(scalar)) f(static_cast<std::uint32_t>(scalar), a, c, home);
        }
      }
    }
  }

  void list_entries() {
    plan_.starts.assign(plan_.aggregates + 1, 0);
    for_scalars([&](std::uint32_t, std::size_t, std::uint32_t, std::uint32_t home) {
      ++plan_.starts[home + 1];
    });
    for (std::size_t g = 0; g < plan_.aggregates; ++g) plan_.starts[g + 1] += plan_.starts[g];
    std::vector<std::uint32_t> next(plan_.starts.begin(), plan_.starts.end() - 1);
    const std::size_t n = plan_.starts.back();
    plan_.scalars.resize(n);
    plan_.homes.resize(n);
    plan_.follows.resize(n);
    arrays_.resize(n);
    coordinates_.resize(n);
    for_scalars([&](std::uint32_t scalar, std::size_t a, std::uint32_t c, std::uint32_t home) {
      const std::uint32_t e = next[home]++;
      plan_.scalars[e] = scalar;
      plan_.homes[e] = home;
      plan_.follows[e] = aggregates_.follows[a];
      arrays_[e] = a;
      coordinates_[e] = c;
    });
  }

  /// Finds the centres of every family, in every aggregate and in all of them.
  void find_centres() {
    const std::size_t n = plan_.aggregates;
    centres_.assign(families_.size() * (n + 1), Point{});
    for (std::size_t k = 0; k < families_.size(); ++k) {
      std::vector<std::array<double, 3>> counts(n + 1, Point{});
      Point* const centres = centres_.data() + k * (n + 1);
      for (std::uint32_t e = 0; e < plan_.entries(); ++e) {
        if (arrays_[e] != families_[k].array || coordinates_[e] > 2) continue;
        for (const std::size_t g : {std::size_t{plan_.homes[e]}, n}) {
          centres[g][coordinates_[e]] += x_[plan_.scalars[e]];
          counts[g][coordinates_[e]] += 1;
        }
      }
      for (std::size_t g = 0; g <= n; ++g) {
        for (std::size_t c = 0; c < 3; ++c) centres[g][c] /= std::max(counts[g][c], 1.0);
      }
    }
  }
  const Point& centre(std::size_t family, std::size_t aggregate) const {
    return centres_[family * (plan_.aggregates + std::size_t{1}) + aggregate];
  }

  void fill_vectors() {
    const std::size_t n = plan_.entries();
    plan_.from.assign(plan_.functions * n, CoarsePlan::kNowhere);
    plan_.offsets.assign(plan_.functions * n, 0.0);
    for (std::size_t k = 0; k < families_.size(); ++k) {
      const Family& family = families_[k];
      for (std::size_t e = 0; e < n; ++e) {
        if (arrays_[e] != family.array) continue;
        const std::uint32_t c = coordinates_[e];
        plan_.offsets[(family.first + c) * n + e] = 1;
        for (std::uint32_t r = 0; r < family.rotations; ++r) {
          const Turn t = turn(family.width, r, c);
          if (t.sign == 0) continue;
          const std::size_t at = (family.first + family.width + r) * n + e;
          plan_.from[at] = (plan_.scalars[e] - c + t.from) | (t.sign < 0 ? CoarsePlan::kMinus : 0);
          plan_.offsets[at] = -t.sign * centre(k, plan_.homes[e])[t.from];
        }
      }
    }
  }

  /// A rotation about the common centre is one about the aggregate's own centre plus a translation.
  void fill_changes() {
    const std::size_t n = plan_.aggregates, m = plan_.functions;
    plan_.spread.assign(m * n * m, 0.0);
    for (std::size_t f = 0; f < m; ++f) {
      for (std::size_t g = 0; g < n; ++g) plan_.spread[(f * n + g) * m + f] = 1;
    }
    plan_.gather = plan_.spread;
    for (std::size_t k = 0; k < families_.size(); ++k) {
      const Family& family = families_[k];
      for (std::uint32_t r = 0; r < family.rotations; ++r) {
        for (std::uint32_t c = 0; c < family.width; ++c) {
          const Turn t = turn(family.width, r, c);
          const std::size_t rotation = family.first + family.width + r, shift = family.first + c;
          for (std::size_t g = 0; g < n; ++g) {
            const double by = t.sign * (centre(k, g)[t.from] - centre(k, n)[t.from]);
            plan_.spread[(rotation * n + g) * m + shift] = by;
            plan_.gather[(shift * n + g) * m + rotation] = -by;
          }
        }
      }
    }
  }

  void describe() {
    std::uint32_t least = ~0u, most = 0;
    for (std::size_t g = 0; g < plan_.aggregates; ++g) {
      const std::uint32_t size = plan_.starts[g + 1] - plan_.starts[g];
      least = std::min(least, size);
      most = std::max(most, size);
    }
    plan_.why =
        because(PreconditionerReason::coarse_space, plan_.aggregates, least, most, plan_.functions);
  }

  const Model& model_;
  std::span<const double> x_;
  CoarsePlan& plan_;
  Aggregates aggregates_;
  std::vector<Family> families_;
  std::vector<std::size_t> arrays_;         // by entry
  std::vector<std::uint32_t> coordinates_;  // by entry
  std::vector<Point> centres_;              // by family and aggregate
};

/// Iterations before the first search for aggregates.
constexpr std::uint64_t kLeastIterations = 32;

/// True if a coarse space pays: an iteration with it takes 1.5 times as long as one without on a
/// device, and 1.6 to 2 times on the CPU.
bool pays(std::uint64_t with, std::uint64_t without) { return 3 * with <= 2 * without; }
/// Iterations before a trial that follows one that did not pay, over those that the trial costs,
/// and their growth with each of them.
constexpr std::uint64_t kMorePatience = 16;

}  // namespace

CoarsePlan plan_coarse_space(const Model& model, std::span<const double> x) {
  CoarsePlan plan;
  if (!model.lower.empty() || model.manifolds) {
    plan.why = {model.manifolds ? PreconditionerReason::manifolds : PreconditionerReason::bounds};
    return plan;
  }
  CoarsePlanner(model, x, plan).run();
  return plan;
}

void centre_coarse_space(const Model& model, std::span<const double> x, CoarsePlan& plan) {
  CoarsePlanner(model, x, plan).centre();
}

void CoarseControl::begin_solve() {
  in_use_ = centred_ = false;
  fresh_ = true;
  builds_ = 0;
  products_ = iterations_ = 0;
  failure_.reset();
  trial_ = asked_ == Preconditioner::automatic ? Trial::waits : Trial::passed;
  without_ = with_ = against_ = 0;
  patience_ = 0;
}

void CoarseControl::model_changed() {
  planning_ = {};
  planned_ = in_use_ = false;
  fresh_ = true;
  plan_ = {};
}

bool CoarseControl::due(const Model& model, const std::function<std::vector<double>()>& x) {
  if (asked_ == Preconditioner::block_jacobi) return false;
  if (trial_ == Trial::waits) return false;
  const bool at_once = asked_ == Preconditioner::two_level && fresh_;
  if (!at_once && iterations_ < kLeastIterations) return false;
  bool is_centred = false;
  if (!planned_) {
    is_centred = !planning_.valid();
    plan_ = is_centred ? plan_coarse_space(model, possible(model) ? x() : std::vector<double>())
                       : planning_.get();
    planned_ = true;
    ++plans_;
    ++centres_;
  }
  const bool is_due = known() && (at_once || iterations_ >= wait());
  if (trial_ == Trial::is_due) trial_ = Trial::waits;
  if (is_due && !std::exchange(centred_, true) && !is_centred) {
    centre_coarse_space(model, x(), plan_);  // as in the first solve
    ++centres_;
  }
  return is_due;
}

std::uint64_t CoarseControl::wait() const {
  const bool failed = trial_ != Trial::passed && patience_ > 0;
  return failed ? patience_ * (cost() + without_) : cost();
}

bool CoarseControl::solved(int iterations) {
  const auto count = static_cast<std::uint64_t>(iterations);
  iterations_ += count;
  if (trial_ == Trial::runs) {
    with_ = count;
    against_ = without_;
    if (pays(with_, without_)) {
      trial_ = Trial::passed;
    } else {
      failed(PreconditionerReason::no_gain);
      patience_ = std::max(patience_, std::uint64_t{1}) * kMorePatience;
    }
    return false;
  }
  if (trial_ == Trial::passed) return false;
  without_ = count;
  const bool is_possible = !planned_ || plan_.aggregates > 0;
  if (is_possible && iterations_ >= (planned_ ? wait() : kLeastIterations)) trial_ = Trial::is_due;
  return trial_ == Trial::is_due;
}

std::uint64_t CoarseControl::cost() const {
  const std::uint64_t n = plan_.unknowns();
  const bool counts = asked_ == Preconditioner::automatic && slow_inverse_ > 0;
  return plan_.products() + (counts ? n * n * n / slow_inverse_ : 0);
}

void CoarseControl::expect(const Model& model, int iterations) {
  if (asked_ == Preconditioner::block_jacobi || planned_ || planning_.valid()) return;
  if (iterations_ + static_cast<std::uint64_t>(iterations) < kLeastIterations) return;
  // The centres are not known yet.
  planning_ = std::async(std::launch::async, [&model] {
    return plan_coarse_space(model, std::vector<double>(model.scalars));
  });
}

void CoarseControl::transfer(ir::StateRecord& record, const Model& model) {
  record.value("coarse space planned", planned_);
  if (record.restores() && planned_) {
    // The centres are those of the record.
    plan_ = plan_coarse_space(model, std::vector<double>(possible(model) ? model.scalars : 0));
    ++plans_;
    ++centres_;
  }
  record.value("coarse space centred", centred_);
  record.value("coarse space in use", in_use_);
  record.value("coarse space fresh", fresh_);
  record.in_range("coarse spaces made", builds_, 0);
  record.value("iterations since the coarse space", iterations_);
  record.value("products for coarse spaces", products_);
  record.value("trial of the coarse space", trial_, Trial::passed);
  record.value("iterations without the coarse space", without_);
  record.value("iterations of its trial", with_);
  record.value("iterations without it then", against_);
  record.value("wait for its trial", patience_);
  bool failed = failure_.has_value();
  PreconditionerReason failure = failure_.value_or(PreconditionerReason{});
  record.value("coarse space failed", failed);
  record.value("why the coarse space failed", failure, kLastPreconditionerReason);
  failure_ = failed ? std::optional(failure) : std::nullopt;
  if (in_use_ && !known()) record.refuse("coarse space in use", "is of a space that is not there");
  if (!known()) return;
  record.list("coarse offsets", std::span(plan_.offsets));
  record.list("coarse spread", std::span(plan_.spread));
  record.list("coarse gather", std::span(plan_.gather));
}

void CoarseControl::settle() {
  if (planning_.valid()) planning_.wait();
}

void CoarseControl::built() {
  in_use_ = true;
  fresh_ = false;
  if (trial_ == Trial::waits) trial_ = Trial::runs;
  ++builds_;
  iterations_ = 0;
  products_ += plan_.products();
  failure_.reset();
}

void CoarseControl::failed(PreconditionerReason why) {
  in_use_ = fresh_ = false;
  if (asked_ == Preconditioner::automatic) trial_ = Trial::waits;
  iterations_ = 0;
  products_ += plan_.products();
  failure_ = why;
}

PreconditionerUse CoarseControl::use() const {
  using Reason = PreconditionerReason;
  PreconditionerUse out{.builds = builds_, .products = products_};
  const bool automatic = asked_ == Preconditioner::automatic;
  if (in_use_) {
    out.kind = Preconditioner::two_level;
    out.asked_for = !automatic;
    out.why = plan_.why;
    out.why.numbers[4] = builds_;
    out.why.numbers[5] = plan_.products();
  } else if (failure_ == PreconditionerReason::no_gain) {
    out.why = because(*failure_, with_, against_);
  } else if (failure_) {
    out.why = {*failure_};
  } else if (planned_ && !known()) {
    out.why = plan_.why;
  } else if (planned_) {
    const bool inverse_counts = cost() > plan_.products();
    out.why =
        because(inverse_counts ? Reason::cheaper_than_inverse : Reason::cheaper_iterations, wait());
  } else {
    out.why = {automatic ? Reason::few_iterations : Reason::asked_for};
  }
  return out;
}

}  // namespace topograd::runtime
