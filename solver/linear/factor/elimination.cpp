// Search for blocks of unknowns that can be eliminated separately.
#include "elimination.hpp"

#include "../../../frontend/inspect/array_names.hpp"
#include "../../../ir/error.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace topograd {
namespace {

/// A remainder up to this size is always accepted; a larger one must be below a third of all.
constexpr std::size_t kSmallComplement = 3000;
/// Each block of the rarer of two kinds is a centre if there are fewer by this factor (a camera
/// sees hundreds of points, a vertex has one rotation).
constexpr std::size_t kCentres = 4;
/// A graph is wide from this many steps from end to end on.
constexpr std::size_t kWide = 12;

struct Graph {
  std::vector<Elimination::Block> blocks;
  std::vector<std::uint32_t> numbers;  // numbers of the blocks among all of the problem's
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // both directions, sorted, no twice
  std::vector<std::size_t> starts;                             // of a block's edges
};

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

/// Sorts edges and removes duplicates; the last step of construction.
void finish(Graph& graph) {
  const std::size_t blocks = graph.blocks.size();
  std::vector<std::size_t> ends(blocks + 1, 0);  // of a block's list, once it is filled
  for (const auto& [from, to] : graph.edges) ++ends[from + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<std::uint32_t> lists(graph.edges.size());
  for (const auto& [from, to] : graph.edges) lists[ends[from]++] = to;
  graph.edges.clear();
  graph.starts.assign(1, 0);
  auto first = lists.begin();
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const auto end = lists.begin() + static_cast<std::ptrdiff_t>(ends[b]);
    std::sort(first, end);
    for (auto to = first, last = std::unique(first, end); to != last; ++to)
      graph.edges.emplace_back(b, *to);
    graph.starts.push_back(graph.edges.size());
    first = end;
  }
}

Graph block_graph(const SparseMatrix& lower, std::span<const std::uint32_t> block_of) {
  Graph graph;
  const std::vector<std::uint32_t> number = number_blocks(graph, block_of);
  for (std::uint32_t c = 0; c < number.size(); ++c) {
    std::uint32_t last = number[c];
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
      const std::uint32_t other = number[static_cast<std::size_t>(it.row())];
      if (other == std::exchange(last, other) || other == number[c]) continue;
      graph.edges.emplace_back(number[c], other);
      graph.edges.emplace_back(other, number[c]);
    }
  }
  finish(graph);
  return graph;
}

constexpr std::uint32_t kNoBlock = ~std::uint32_t{0};

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

/// Adds all pairs of different blocks that meet in an instance of a term.
void add_edges(Graph& graph, const runtime::Term& term, std::span<const std::uint32_t> number) {
  const std::size_t instances = term.batch->size(), slots = term.batch->parameter_columns();
  std::vector<std::uint32_t> column(instances), met(instances * slots);
  for (std::size_t s = 0; s < slots; ++s) {
    term.batch->copy_index_column(static_cast<std::uint32_t>(s), 0, column);
    for (std::size_t i = 0; i < instances; ++i) met[i * slots + s] = number[column[i]];
  }
  for (std::size_t i = 0; i < instances; ++i) {
    const auto first = met.begin() + static_cast<std::ptrdiff_t>(i * slots);
    std::sort(first, first + static_cast<std::ptrdiff_t>(slots));
    auto last = std::unique(first, first + static_cast<std::ptrdiff_t>(slots));
    if (last != first && *(last - 1) == kNoBlock) --last;
    for (auto a = first; a != last; ++a)
      for (auto b = first; b != last; ++b)
        if (a != b) graph.edges.emplace_back(*a, *b);
  }
}

Graph block_graph(const runtime::Model& model) {
  Graph graph;
  const std::vector<std::uint32_t> number = number_blocks(graph, model);
  for (const runtime::Term& term : model.terms) add_edges(graph, term, number);
  finish(graph);
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
      const std::uint32_t other = graph.edges[k].second;
      if (marks[other] != Mark::taken) {
        visit(other);
      } else if (std::exchange(seen[other], std::uint8_t{1}) == 0) {
        for (std::size_t j = graph.starts[other]; j < graph.starts[other + 1]; ++j)
          visit(graph.edges[j].second);
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
      const std::uint32_t other = graph.edges[k].second;
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
      marks[graph.edges[k].second] = Mark::kept;
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

}  // namespace topograd
