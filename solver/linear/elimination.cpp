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
  std::sort(graph.edges.begin(), graph.edges.end());
  graph.edges.erase(std::unique(graph.edges.begin(), graph.edges.end()), graph.edges.end());
  graph.starts.assign(graph.blocks.size() + 1, 0);
  for (const auto& [from, to] : graph.edges) ++graph.starts[from + 1];
  std::partial_sum(graph.starts.begin(), graph.starts.end(), graph.starts.begin());
  return graph;
}

}  // namespace

bool Elimination::pays() const {
  return eliminated > 0 && (kept <= kSmallComplement ? kept < eliminated : 3 * kept < eliminated);
}

Elimination find_elimination(const SparseMatrix& lower, std::span<const std::uint32_t> block_of) {
  const Graph graph = block_graph(lower, block_of);
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

}  // namespace topograd
