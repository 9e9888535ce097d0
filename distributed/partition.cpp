// The graph of chunks, and its parts by Scotch.
#include "partition.hpp"

#include "../ir/error.hpp"
#include "../runtime/model/model.hpp"
#include "communicator.hpp"

#include <scotch.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>  // scotch.h needs it
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::distributed {
namespace {

static_assert(SCOTCH_VERSION >= 7, "contexts came with Scotch 7");

void check(int result, const char* call) {
  if (result != 0)
    throw Error(ErrorCode::Internal, std::string("distributed: Scotch: ") + call + " has failed");
}

/// A structure of Scotch between its init and exit functions.
template <class T, int (*init)(T*), void (*exit)(T*)>
class Owned {
 public:
  Owned() { check(init(&it_), "an init function"); }
  ~Owned() { exit(&it_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* get() { return &it_; }

 private:
  T it_;
};
using Graph = Owned<SCOTCH_Graph, SCOTCH_graphInit, SCOTCH_graphExit>;
using Context = Owned<SCOTCH_Context, SCOTCH_contextInit, SCOTCH_contextExit>;
using Strategy = Owned<SCOTCH_Strat, SCOTCH_stratInit, SCOTCH_stratExit>;

/// Weights whose sum Scotch can hold, each 1 or more.
std::vector<SCOTCH_Num> scaled(std::span<const std::uint64_t> weights) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30U;
  const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  const std::uint64_t by = sum / kMost + 1;
  std::vector<SCOTCH_Num> out;
  out.reserve(weights.size());
  for (const std::uint64_t weight : weights)
    out.push_back(static_cast<SCOTCH_Num>(std::max<std::uint64_t>(weight / by, 1)));
  return out;
}

/// The part of each chunk, below `parts`: about equal weights, few shared rows. Deterministic: one
/// thread, and the same random numbers in each call.
///
///   graph  with all edges, each in both directions
/// Throws Error{Internal} if Scotch fails.
std::vector<int> scotch_parts(const ChunkGraph& graph, int parts) {
  const std::vector<SCOTCH_Num> starts(graph.starts.begin(), graph.starts.end());
  const std::vector<SCOTCH_Num> neighbours(graph.neighbours.begin(), graph.neighbours.end());
  const std::vector<SCOTCH_Num> weights = scaled(graph.weights), shared = scaled(graph.shared);
  const auto chunks = static_cast<SCOTCH_Num>(weights.size());
  Graph whole, in_context;
  check(SCOTCH_graphBuild(whole.get(), 0, chunks, starts.data(), nullptr, weights.data(), nullptr,
                          static_cast<SCOTCH_Num>(neighbours.size()), neighbours.data(),
                          shared.data()),
        "SCOTCH_graphBuild");
  // Threads divide in another way each time. Random numbers of the default context go on from call
  // to call.
  Context context;
  SCOTCH_contextRandomReset(context.get());
  check(SCOTCH_contextThreadSpawn(context.get(), 1, nullptr), "SCOTCH_contextThreadSpawn");
  check(SCOTCH_contextBindGraph(context.get(), whole.get(), in_context.get()),
        "SCOTCH_contextBindGraph");
  Strategy strategy;
  std::vector<SCOTCH_Num> out(graph.weights.size());
  check(SCOTCH_graphPart(in_context.get(), parts, strategy.get(), out.data()), "SCOTCH_graphPart");
  return {out.begin(), out.end()};
}

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

std::vector<int> partition(const Communicator& ranks, const ChunkGraph& graph, int parts,
                           PartitionMethod method) {
  const std::size_t chunks = graph.weights.size();
  // Scotch leaves parts empty where there are few vertices for each.
  if (parts == 1 || method == PartitionMethod::contiguous ||
      chunks < 2 * static_cast<std::size_t>(parts))
    return contiguous_parts(graph.weights, parts);
  const std::string bytes = ranks.from_first([&] {
    std::string out;
    for (const int part : scotch_parts(graph, parts)) put(out, part);
    return out;
  });
  std::vector<int> owners;
  for (Bytes left(bytes); !left.empty();) owners.push_back(left.take<int>());
  return owners;
}

}  // namespace topograd::distributed
