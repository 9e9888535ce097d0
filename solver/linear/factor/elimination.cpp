// Search for blocks of unknowns that can be eliminated separately, and those of the user.
#include "elimination.hpp"

#include "../../../frontend/inspect/array_names.hpp"
#include "../../../ir/error.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

/// A remainder up to this size is always accepted; a larger one must be below a third of all.
constexpr std::size_t kSmallComplement = 3000;
/// Each block of the rarer of two kinds is a centre if there are fewer by this factor (a camera
/// sees hundreds of points, a vertex has one rotation).
constexpr std::size_t kCentres = 4;
/// A graph is wide from this many steps from end to end on.
constexpr std::size_t kWide = 12;

constexpr std::uint32_t kNoBlock = ~std::uint32_t{0};
/// Instances whose indices are copied together.
constexpr std::size_t kTile = 256;

struct Graph {
  std::vector<Elimination::Block> blocks;
  std::vector<std::uint32_t> numbers;  // numbers of the blocks among all of the problem's
  std::vector<std::uint32_t> edges;    // by block: blocks that it meets, ascending, none twice
  std::vector<std::size_t> starts;     // of a block's edges
};

/// Pairs of blocks that meet, in any order.
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

std::vector<std::uint32_t> number_blocks(Graph& graph, std::span<const std::uint32_t> block_of) {
  std::vector<std::uint32_t> number(block_of.size());
  for (std::uint32_t c = 0; c < block_of.size(); ++c) {
    if (c == 0 || block_of[c] != block_of[c - 1]) {
      graph.blocks.push_back({c, 0});
      graph.numbers.push_back(block_of[c]);
    }
    ++graph.blocks.back().width;
    number[c] = static_cast<std::uint32_t>(graph.blocks.size() - 1);
  }
  return number;
}

/// Makes the edges of pairs; the last step of construction.
void finish(Graph& graph, const Pairs& pairs) {
  const std::size_t blocks = graph.blocks.size();
  std::vector<std::size_t> ends(blocks + 1, 0);  // of a block's list, once it is filled
  for (const auto& [a, b] : pairs) {
    ++ends[a + 1];
    ++ends[b + 1];
  }
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<std::uint32_t> lists(2 * pairs.size());
  for (const auto& [a, b] : pairs) {
    lists[ends[a]++] = b;
    lists[ends[b]++] = a;
  }
  std::vector<std::uint32_t> met_by(blocks, kNoBlock);  // by block: the last one that met it
  graph.starts.assign(1, 0);
  std::size_t begin = 0;
  for (std::uint32_t b = 0; b < blocks; begin = ends[b], ++b) {
    for (std::size_t k = begin; k < ends[b]; ++k)
      if (std::exchange(met_by[lists[k]], b) != b) graph.edges.push_back(lists[k]);
    const auto first = graph.edges.begin() + static_cast<std::ptrdiff_t>(graph.starts.back());
    std::sort(first, graph.edges.end());
    graph.starts.push_back(graph.edges.size());
  }
}

Graph block_graph(const SparseMatrix& lower, std::span<const std::uint32_t> block_of) {
  Graph graph;
  Pairs pairs;
  const std::vector<std::uint32_t> number = number_blocks(graph, block_of);
  for (std::uint32_t c = 0; c < number.size(); ++c) {
    std::uint32_t last = number[c];
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
      const std::uint32_t other = number[static_cast<std::size_t>(it.row())];
      if (other == std::exchange(last, other) || other == number[c]) continue;
      pairs.emplace_back(number[c], other);
    }
  }
  finish(graph, pairs);
  return graph;
}

/// By scalar: number of its block among those with free scalars, or kNoBlock.
std::vector<std::uint32_t> number_blocks(Graph& graph, const runtime::Model& model) {
  std::vector<std::uint32_t> number(model.scalars, kNoBlock);
  std::uint32_t column = 0, block = 0;
  for (const runtime::ParameterArray& array : model.arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b, ++block) {
      const std::uint32_t first = column;
      for (std::uint64_t k = array.offset + b * array.width, end = k + array.width; k < end; ++k) {
        if (!model.constant.empty() && model.constant[k]) continue;
        number[k] = static_cast<std::uint32_t>(graph.blocks.size());
        ++column;
      }
      if (column == first) continue;
      graph.blocks.push_back({first, column - first});
      graph.numbers.push_back(block);
    }
  }
  return number;
}

/// Sorts the blocks that an instance reads, and adds all pairs of different ones.
void add_pairs_of(std::vector<std::uint32_t>& met, Pairs& pairs) {
  std::ranges::sort(met);
  const auto rest = std::ranges::unique(met);
  met.erase(rest.begin(), rest.end());
  for (auto a = met.begin(); a != met.end(); ++a)
    for (auto b = a + 1; b != met.end(); ++b) pairs.emplace_back(*a, *b);
}

/// Adds all pairs of different blocks that meet in an instance of a term.
void add_pairs(const runtime::Term& term, std::span<const std::uint32_t> number, Pairs& pairs) {
  const std::size_t instances = term.batch->size(), slots = term.batch->parameter_columns();
  std::vector<std::uint32_t> tile(slots * kTile), met;
  for (std::size_t first = 0; first < instances; first += kTile) {
    const std::size_t n = std::min(kTile, instances - first);
    for (std::size_t s = 0; s < slots; ++s)
      term.batch->copy_index_column(static_cast<std::uint32_t>(s), first,
                                    std::span(tile).subspan(s * kTile, n));
    for (std::size_t i = 0; i < n; ++i) {
      met.clear();
      for (std::size_t s = 0; s < slots; ++s) {  // adjacent slots read the same block, mostly
        const std::uint32_t block = number[tile[s * kTile + i]];
        if (block != kNoBlock && (met.empty() || met.back() != block)) met.push_back(block);
      }
      add_pairs_of(met, pairs);
    }
  }
}

Graph block_graph(const runtime::Model& model) {
  Graph graph;
  Pairs pairs;
  const std::vector<std::uint32_t> number = number_blocks(graph, model);
  for (const runtime::Term& term : model.terms) add_pairs(term, number, pairs);
  finish(graph, pairs);
  return graph;
}

}  // namespace

bool Elimination::remains_wide() const {
  return reach >= kWide && kCentres * remaining.size() > blocks.size();
}

bool Elimination::pays() const {
  return eliminated > 0 && (kept <= kSmallComplement ? kept < eliminated : 3 * kept < eliminated);
}

namespace {

enum class Mark : std::uint8_t { open, taken, kept };

/// Breadth-first search of the kept blocks, with eliminated blocks as edges between all blocks that
/// meet them. Returns the last block reached and the number of steps.
std::pair<std::uint32_t, std::size_t> farthest(const Graph& graph, std::span<const Mark> marks,
                                               std::uint32_t from) {
  std::vector<std::uint32_t> queue{from};
  std::vector<std::uint8_t> seen(graph.blocks.size(), 0);
  seen[from] = 1;
  std::size_t steps = 0, level_end = 1;
  const auto visit = [&](std::uint32_t block) {
    if (std::exchange(seen[block], std::uint8_t{1}) == 0) queue.push_back(block);
  };
  for (std::size_t head = 0; head < queue.size(); ++head) {
    if (head == level_end) {
      ++steps;
      level_end = queue.size();
    }
    const std::uint32_t block = queue[head];
    for (std::size_t k = graph.starts[block]; k < graph.starts[block + 1]; ++k) {
      const std::uint32_t other = graph.edges[k];
      if (marks[other] != Mark::taken) {
        visit(other);
      } else if (std::exchange(seen[other], std::uint8_t{1}) == 0) {
        for (std::size_t j = graph.starts[other]; j < graph.starts[other + 1]; ++j)
          visit(graph.edges[j]);
      }
    }
  }
  return {queue.back(), steps};
}

/// Two searches: from the kept block with the most neighbours, and from the block they reach last.
std::size_t reach_of(const Graph& graph, std::span<const Mark> marks) {
  const auto degree = [&](std::uint32_t b) { return graph.starts[b + 1] - graph.starts[b]; };
  std::uint32_t root = kNoBlock;
  for (std::uint32_t b = 0; b < graph.blocks.size(); ++b) {
    if (marks[b] == Mark::taken) continue;
    if (root == kNoBlock || degree(b) > degree(root)) root = b;
  }
  if (root == kNoBlock) return 0;
  const std::uint32_t end = farthest(graph, marks, root).first;
  return farthest(graph, marks, end).second;
}

/// parameter "points", block 3; if the array has no name, parameter array 0, block 3.
std::string name_of_block(const EliminationHint& hint, std::uint32_t number) {
  std::uint64_t block = number;
  for (std::size_t a = 0; a < hint.arrays.size(); ++a) {
    const EliminationHint::Array& array = hint.arrays[a];
    if (block < array.blocks) return block_text({array.name, a, array.blocks}, block);
    block -= array.blocks;
  }
  return "block " + std::to_string(number);
}

/// Selects the blocks of the hint.
void take_hinted(const Graph& graph, const EliminationHint& hint, std::vector<Mark>& marks) {
  const auto hinted = [&](std::uint32_t b) { return hint.blocks[graph.numbers[b]] != 0; };
  for (std::uint32_t b = 0; b < graph.blocks.size(); ++b) {
    if (!hinted(b)) continue;
    for (std::size_t k = graph.starts[b]; k < graph.starts[b + 1]; ++k) {
      const std::uint32_t other = graph.edges[k];
      if (!hinted(other)) continue;
      throw Error(ErrorCode::InvalidArgument,
                  "linear_solver_ordering: expected a first group of which no two blocks meet in a "
                  "residual, but " +
                      name_of_block(hint, graph.numbers[b]) + " and " +
                      name_of_block(hint, graph.numbers[other]) + " do");
    }
    if (graph.blocks[b].width <= kWidestEliminated) marks[b] = Mark::taken;
  }
}

/// Selects blocks by the number of their neighbours.
void take_independent(const Graph& graph, std::vector<Mark>& marks) {
  std::vector<std::uint32_t> order(graph.blocks.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto degree = [&](std::uint32_t b) { return graph.starts[b + 1] - graph.starts[b]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return degree(a) < degree(b); });
  for (const std::uint32_t b : order) {
    if (marks[b] != Mark::open || graph.blocks[b].width > kWidestEliminated) continue;
    marks[b] = Mark::taken;
    for (std::size_t k = graph.starts[b]; k < graph.starts[b + 1]; ++k)
      marks[graph.edges[k]] = Mark::kept;
  }
}

Elimination find_elimination(const Graph& graph, const EliminationHint& hint) {
  std::vector<Mark> marks(graph.blocks.size(), Mark::open);
  if (hint.empty()) {
    take_independent(graph, marks);
  } else {
    take_hinted(graph, hint, marks);
  }
  Elimination out;
  for (std::uint32_t b = 0; b < graph.blocks.size(); ++b) {
    const bool taken = marks[b] == Mark::taken;
    (taken ? out.blocks : out.remaining).push_back(graph.blocks[b]);
    (taken ? out.eliminated : out.kept) += graph.blocks[b].width;
  }
  out.reach = reach_of(graph, marks);
  return out;
}

}  // namespace

Elimination find_elimination(const SparseMatrix& lower, std::span<const std::uint32_t> block_of,
                             const EliminationHint& hint) {
  return find_elimination(block_graph(lower, block_of), hint);
}

Elimination find_elimination(const runtime::Model& model, const EliminationHint& hint) {
  return find_elimination(block_graph(model), hint);
}

namespace {

constexpr const char* kOrdering = "linear_solver_ordering";
/// Group of blocks that no group names; they are kept.
constexpr int kLastGroup = std::numeric_limits<int>::max();

/// Number of each array's first block among all blocks.
std::vector<std::size_t> first_blocks(const Problem& problem) {
  std::vector<std::size_t> first{0};
  for (const ParameterArray& array : problem.arrays()) first.push_back(first.back() + array.blocks);
  return first;
}

std::size_t array_with(const Problem& problem, std::uint32_t scalar) {
  const auto after =
      std::ranges::upper_bound(problem.arrays(), scalar, {}, &ParameterArray::offset);
  return static_cast<std::size_t>(after - problem.arrays().begin()) - 1;
}

ArrayName name_of(const Problem& problem, std::size_t number) {
  const ParameterArray& array = problem.arrays()[number];
  return {array.name, number, array.blocks, array.width};
}

}  // namespace

EliminationHint elimination_hint(const Problem& problem, const SolverOptions& options) {
  if (options.linear_solver_ordering.empty()) return {};
  const std::vector<std::size_t> first = first_blocks(problem);
  std::vector<int> group(first.back(), kLastGroup);
  for (const OrderedParameters& named : options.linear_solver_ordering) {
    const std::size_t block = named.block.value_or(0);
    const std::uint32_t scalar = problem.offset_of(kOrdering, {named.array, block});
    const std::size_t array = array_with(problem, scalar);
    if (named.group < 0)
      throw Error(ErrorCode::InvalidArgument, std::string(kOrdering) + ": the group of " +
                                                  block_text(name_of(problem, array), block) +
                                                  " must be >= 0, got " +
                                                  std::to_string(named.group));
    const std::size_t begin = first[array] + block;
    std::fill_n(group.begin() + static_cast<std::ptrdiff_t>(begin),
                named.block ? 1 : named.array.size(), named.group);
  }
  const auto [least, most] = std::ranges::minmax(group);
  if (least == most) return {};
  EliminationHint hint;
  for (const int g : group) hint.blocks.push_back(g == least ? 1 : 0);
  for (const ParameterArray& array : problem.arrays())
    hint.arrays.push_back({array.name, array.blocks});
  return hint;
}

}  // namespace topograd
