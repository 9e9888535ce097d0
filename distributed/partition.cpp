// The graph of chunks, and its division by PTScotch or in order.
#include "partition.hpp"

#include "../runtime/model/block_numbers.hpp"
#include "petsc.hpp"

#include <petscmat.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace topograd::distributed {
namespace {

/// Chunks a and b, and the rows that they share.
struct Edge {
  std::uint64_t pair = 0;  // a in the upper half
  std::uint64_t rows = 0;
};

/// Edges of which the same pair comes many times. Joins equal ones from time to time.
class Edges {
 public:
  void add(std::uint32_t a, std::uint32_t b, std::uint64_t rows) {
    edges_.push_back({std::uint64_t{a} << 32U | b, rows});
    if (edges_.size() >= limit_) {
      join();
      limit_ = std::max(limit_, 2 * edges_.size());
    }
  }
  /// All edges in the order of their pairs.
  std::vector<Edge> joined() {
    join();
    return std::move(edges_);
  }

 private:
  void join() {
    std::ranges::sort(edges_, {}, &Edge::pair);
    std::size_t kept = 0;
    for (std::size_t k = 0; k < edges_.size(); ++k) {
      if (kept > 0 && edges_[kept - 1].pair == edges_[k].pair) {
        edges_[kept - 1].rows += edges_[k].rows;
      } else {
        edges_[kept++] = edges_[k];
      }
    }
    edges_.resize(kept);
  }

  std::vector<Edge> edges_;
  std::size_t limit_ = std::size_t{1} << 20U;
};

void add_term(const runtime::Term& term, const runtime::BlockNumbers& blocks,
              std::span<const std::uint32_t> chunk_of, std::vector<std::uint64_t>& weights,
              Edges& edges) {
  const ir::Batch& batch = *term.batch;
  const std::uint64_t rows = std::max<std::size_t>(term.topology->program.outputs.size(), 1);
  std::vector<std::uint32_t> touched;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    touched.clear();
    for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot)
      touched.push_back(chunk_of[blocks.at(batch.index(i, slot))]);
    std::ranges::sort(touched);
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const std::uint32_t a : touched) {
      weights[a] += rows;
      for (const std::uint32_t b : touched)
        if (a != b) edges.add(a, b, rows);
    }
  }
}

}  // namespace

ChunkGraph chunk_graph(const runtime::Model& model, std::span<const runtime::Chunk> chunks) {
  ChunkGraph graph;
  graph.weights.assign(chunks.size(), 1);
  const runtime::BlockNumbers blocks(model.arrays);
  std::vector<std::uint32_t> chunk_of(blocks.count());
  for (std::uint32_t c = 0; c < chunks.size(); ++c)
    std::fill(chunk_of.begin() + chunks[c].first_block, chunk_of.begin() + chunks[c].end_block, c);
  Edges edges;
  for (const runtime::Term& term : model.terms)
    add_term(term, blocks, chunk_of, graph.weights, edges);
  graph.starts.assign(chunks.size() + 1, 0);
  for (const Edge& edge : edges.joined()) {
    ++graph.starts[(edge.pair >> 32U) + 1];
    graph.neighbours.push_back(static_cast<std::uint32_t>(edge.pair));
    graph.shared.push_back(edge.rows);
  }
  std::partial_sum(graph.starts.begin(), graph.starts.end(), graph.starts.begin());
  return graph;
}

std::vector<int> contiguous_parts(std::span<const std::uint64_t> weights, int parts) {
  const std::uint64_t total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  std::vector<int> owners;
  owners.reserve(weights.size());
  std::uint64_t before = 0;
  for (const std::uint64_t weight : weights) {
    const std::uint64_t middle = before + weight / 2;
    const std::uint64_t part = total == 0 ? 0 : middle * static_cast<std::uint64_t>(parts) / total;
    owners.push_back(static_cast<int>(std::min<std::uint64_t>(part, parts - 1)));
    before += weight;
  }
  return owners;
}

Slice partition_slice(std::uint64_t chunks, int rank, int ranks) {
  const auto first = [&](int r) {
    return chunks * static_cast<std::uint64_t>(r) / static_cast<std::uint64_t>(ranks);
  };
  return {first(rank), first(rank + 1)};
}

std::vector<int> partition(const Communicator& ranks, const ChunkGraph& graph, int parts,
                           PartitionMethod method) {
  const auto chunks = static_cast<PetscInt>(graph.weights.size());
  // PTScotch leaves parts empty where there are few vertices for each.
  if (parts == 1 || method == PartitionMethod::contiguous || chunks < 2 * parts)
    return contiguous_parts(graph.weights, parts);
  const Slice slice = partition_slice(graph.weights.size(), ranks.rank(), ranks.size());
  const auto first = static_cast<PetscInt>(slice.first), end = static_cast<PetscInt>(slice.end);
  // PETSc frees these.
  PetscInt *starts = nullptr, *neighbours = nullptr, *shared = nullptr, *weights = nullptr;
  const PetscInt edges =
      static_cast<PetscInt>(graph.starts[end]) - static_cast<PetscInt>(graph.starts[first]);
  check(PetscMalloc1(end - first + 1, &starts));
  check(PetscMalloc1(edges, &neighbours));
  check(PetscMalloc1(edges, &shared));
  check(PetscMalloc1(end - first, &weights));
  const auto narrow = [](std::uint64_t n) {
    return static_cast<PetscInt>(std::min<std::uint64_t>(n, 1 << 24));
  };
  for (PetscInt c = first; c <= end; ++c)
    starts[c - first] = static_cast<PetscInt>(graph.starts[c] - graph.starts[first]);
  for (PetscInt e = 0; e < edges; ++e) {
    neighbours[e] = static_cast<PetscInt>(graph.neighbours[graph.starts[first] + e]);
    shared[e] = narrow(graph.shared[graph.starts[first] + e]);
  }
  for (PetscInt c = first; c < end; ++c) weights[c - first] = narrow(graph.weights[c]);

  ::Mat adjacency = nullptr;
  MatPartitioning divides = nullptr;
  IS owners = nullptr, all = nullptr;
  check(MatCreateMPIAdj(ranks.comm(), end - first, chunks, starts, neighbours, shared, &adjacency));
  check(MatPartitioningCreate(ranks.comm(), &divides));
  check(MatPartitioningSetAdjacency(divides, adjacency));
  check(MatPartitioningSetVertexWeights(divides, weights));
  check(MatPartitioningSetUseEdgeWeights(divides, PETSC_TRUE));
  check(MatPartitioningSetNParts(divides, parts));
  check(MatPartitioningSetType(divides, MATPARTITIONINGPTSCOTCH));
  check(MatPartitioningSetFromOptions(divides));
  check(MatPartitioningApply(divides, &owners));
  check(ISAllGather(owners, &all));
  const PetscInt* numbers = nullptr;
  check(ISGetIndices(all, &numbers));
  std::vector<int> out(numbers, numbers + chunks);
  check(ISRestoreIndices(all, &numbers));
  check(ISDestroy(&all));
  check(ISDestroy(&owners));
  check(MatPartitioningDestroy(&divides));
  check(MatDestroy(&adjacency));
  return out;
}

}  // namespace topograd::distributed
