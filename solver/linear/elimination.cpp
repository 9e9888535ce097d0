// Which blocks of unknowns can be eliminated each by itself.
#include <topograd/solver/linear/elimination.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace topograd {
namespace {

/// What remains may be this large whatever goes, and must be smaller than a third of it else.
constexpr std::size_t kSmallComplement = 3000;

struct Graph {
  std::vector<Elimination::Block> blocks;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // both directions, sorted, no twice
  std::vector<std::size_t> starts;                             // of a block's edges
};

std::vector<std::uint32_t> number_blocks(Graph& graph, std::span<const std::uint32_t> block_of) {
  std::vector<std::uint32_t> number(block_of.size());
  for (std::uint32_t c = 0; c < block_of.size(); ++c) {
    if (c == 0 || block_of[c] != block_of[c - 1]) graph.blocks.push_back({c, 0});
    ++graph.blocks.back().width;
    number[c] = static_cast<std::uint32_t>(graph.blocks.size() - 1);
  }
  return number;
}

/// The last step of making one: edges that were added in any order, and more than once.
void finish(Graph& graph) {
  std::sort(graph.edges.begin(), graph.edges.end());
  graph.edges.erase(std::unique(graph.edges.begin(), graph.edges.end()), graph.edges.end());
  graph.starts.assign(graph.blocks.size() + 1, 0);
  for (const auto& [from, to] : graph.edges) ++graph.starts[from + 1];
  std::partial_sum(graph.starts.begin(), graph.starts.end(), graph.starts.begin());
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
  std::uint32_t column = 0;
  for (const runtime::ParameterArray& array : model.arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b) {
      const std::uint32_t first = column;
      for (std::uint64_t k = array.offset + b * array.width, end = k + array.width; k < end; ++k) {
        if (!model.constant.empty() && model.constant[k]) continue;
        number[k] = static_cast<std::uint32_t>(graph.blocks.size());
        ++column;
      }
      if (column > first) graph.blocks.push_back({first, column - first});
    }
  }
  return number;
}

/// All pairs of different blocks that meet in an instance of a term.
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
  for (const runtime::Term& term : model.terms) {
    if (!term.energy) add_edges(graph, term, number);
  }
  finish(graph);
  return graph;
}

}  // namespace

bool Elimination::pays() const {
  return eliminated > 0 && (kept <= kSmallComplement ? kept < eliminated : 3 * kept < eliminated);
}

namespace {

Elimination find_elimination(const Graph& graph) {
  std::vector<std::uint32_t> order(graph.blocks.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto degree = [&](std::uint32_t b) { return graph.starts[b + 1] - graph.starts[b]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return degree(a) < degree(b); });
  enum class Mark : std::uint8_t { open, taken, kept };
  std::vector<Mark> marks(graph.blocks.size(), Mark::open);
  Elimination out;
  for (const std::uint32_t b : order) {
    if (marks[b] != Mark::open || graph.blocks[b].width > kWidestEliminated) continue;
    marks[b] = Mark::taken;
    for (std::size_t k = graph.starts[b]; k < graph.starts[b + 1]; ++k)
      marks[graph.edges[k].second] = Mark::kept;
  }
  for (std::uint32_t b = 0; b < graph.blocks.size(); ++b) {
    const bool taken = marks[b] == Mark::taken;
    if (taken) out.blocks.push_back(graph.blocks[b]);
    (taken ? out.eliminated : out.kept) += graph.blocks[b].width;
  }
  return out;
}

}  // namespace

Elimination find_elimination(const SparseMatrix& lower, std::span<const std::uint32_t> block_of) {
  return find_elimination(block_graph(lower, block_of));
}

Elimination find_elimination(const runtime::Model& model) {
  return find_elimination(block_graph(model));
}

}  // namespace topograd
