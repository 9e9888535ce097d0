// The graph of chunks, its parts by Scotch, and the part of a rank, cut out and numbered.
#include "local_model.hpp"

#include <scotch.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>  // scotch.h needs it
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../ir/error.hpp"
#include "../runtime/model/model.hpp"
#include "communicator.hpp"

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

constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();

/// Adds a run, or lengthens the last one.
void add_run(std::vector<Run>& runs, std::uint64_t whole, std::uint64_t here, std::uint64_t count) {
  const bool goes_on = !runs.empty() && runs.back().whole + runs.back().count == whole &&
                       runs.back().here + runs.back().count == here;
  if (goes_on) {
    runs.back().count += count;
  } else {
    runs.push_back({whole, here, count});
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
  std::vector<int> rank_of_chunk;
  rank_of_chunk.reserve(weights.size());
  std::uint64_t before = 0;
  for (const std::uint64_t weight : weights) {
    const std::uint64_t middle = before + weight / 2;
    const std::uint64_t part = total == 0 ? 0 : middle * static_cast<std::uint64_t>(parts) / total;
    rank_of_chunk.push_back(static_cast<int>(std::min<std::uint64_t>(part, parts - 1)));
    before += weight;
  }
  return rank_of_chunk;
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
  std::vector<int> rank_of_chunk;
  for (Bytes left(bytes); !left.empty();) rank_of_chunk.push_back(left.take<int>());
  return rank_of_chunk;
}

HeldBlocks::HeldBlocks(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
                       std::span<const int> rank_of_chunk, int rank)
    : model_(model),
      chunks_(chunks),
      rank_of_chunk_(rank_of_chunk),
      rank_(rank),
      numbers_(model.arrays),
      rank_of_block_(numbers_.count()),
      kept_(numbers_.count()),
      first_here_(numbers_.count(), kAbsent) {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const auto begin = rank_of_block_.begin() + chunks[c].first_block;
    std::fill(begin, rank_of_block_.begin() + chunks[c].end_block, rank_of_chunk[c]);
  }
  for (std::size_t b = 0; b < rank_of_block_.size(); ++b)
    kept_[b] = rank_of_block_[b] == rank ? 1 : 0;
}

void HeldBlocks::number(LocalModel& out) {
  // An engine has unknowns, also on a rank that owns none.
  if (std::ranges::find(kept_, 1) == kept_.end()) kept_[0] = 1;
  number_blocks(out);
  number_chunks(out);
  number_manifolds(out);
}

void HeldBlocks::number_blocks(LocalModel& out) {
  std::uint32_t block = 0;
  for (const runtime::ParameterArray& array : model_.arrays) {
    runtime::ParameterArray here{.offset = out.model.scalars, .width = array.width};
    for (std::uint64_t k = 0; k < array.blocks; ++k, ++block) {
      if (kept_[block] == 0) continue;
      const std::uint64_t whole = array.offset + k * array.width;
      const bool own = is_own(block);
      first_here_[block] = static_cast<std::uint32_t>(out.model.scalars);
      add_run(own ? out.own : out.ghosts, whole, out.model.scalars, array.width);
      ++(own ? out.blocks : out.ghost_blocks);
      copy_scalars(whole, array.width, out);
      out.model.scalars += array.width;
      ++here.blocks;
    }
    if (here.blocks > 0) out.model.arrays.push_back(here);
  }
}

/// Flags and bounds of a block's scalars.
void HeldBlocks::copy_scalars(std::uint64_t first, std::uint32_t count, LocalModel& out) const {
  const auto copy = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(first);
    to.insert(to.end(), begin, begin + count);
  };
  copy(model_.constant, out.model.constant);
  copy(model_.lower, out.model.lower);
  copy(model_.upper, out.model.upper);
}

void HeldBlocks::number_chunks(LocalModel& out) const {
  std::vector<std::uint32_t> number(kept_.size());
  std::uint32_t next = 0;
  for (std::size_t b = 0; b < kept_.size(); ++b) {
    number[b] = next;
    next += kept_[b];
  }
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (rank_of_chunk_[c] != rank_) continue;
    const runtime::Chunk& whole = chunks_[c];
    const std::uint32_t first_block = number[whole.first_block];
    const std::uint64_t first = first_here_[whole.first_block];
    out.chunks.push_back({.first_block = first_block,
                          .end_block = first_block + (whole.end_block - whole.first_block),
                          .first = first,
                          .end = first + (whole.end - whole.first)});
    out.chunk_numbers.push_back(c);
  }
}

void HeldBlocks::number_manifolds(LocalModel& out) const {
  if (model_.manifolds == nullptr) return;
  auto here = std::make_shared<runtime::Manifolds>();
  for (const runtime::ManifoldBlocks& whole : model_.manifolds->all) {
    std::vector<std::uint32_t> blocks;
    for (const std::uint32_t first : whole.blocks)
      if (kept_[block_of(first)] != 0) blocks.push_back(scalar_here(first));
    if (blocks.empty()) continue;
    here->all.push_back({.width = whole.width,
                         .tangent = whole.tangent,
                         .plus = whole.plus,
                         .basis = whole.basis,
                         .blocks = std::move(blocks)});
  }
  if (!here->all.empty()) out.model.manifolds = std::move(here);
}

std::uint32_t HeldBlocks::scalar_here(std::uint32_t whole) const {
  const std::size_t array = numbers_.array_of_scalar(whole);
  const runtime::ParameterArray& of = model_.arrays[array];
  const auto coordinate = static_cast<std::uint32_t>((whole - of.offset) % of.width);
  return first_here_[numbers_.of(array, whole)] + coordinate;
}

namespace {

/// Finds the residuals and blocks of a rank, then copies them.
class Cutter {
 public:
  Cutter(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
         std::span<const int> rank_of_chunk, int rank)
      : model_(model), blocks_(model, chunks, rank_of_chunk, rank) {}

  LocalModel cut() {
    for (std::size_t t = 0; t < model_.terms.size(); ++t) choose_instances(t);
    blocks_.number(out_);
    for (const LocalModel::LocalTerm& term : out_.terms) copy_term(term);
    out_.model.rows = model_.rows;
    out_.model.uniforms = model_.uniforms;
    out_.model.revision = model_.revision;
    return std::move(out_);
  }

 private:
  void choose_instances(std::size_t t) {
    const ir::Batch& batch = *model_.terms[t].batch;
    LocalModel::LocalTerm term{.whole = t};
    std::vector<std::uint32_t> blocks(std::max<std::uint32_t>(batch.parameter_columns(), 1));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot)
        blocks[slot] = blocks_.block_of(batch.index(i, slot));
      const auto is_own = [&](std::uint32_t b) { return blocks_.is_own(b); };
      if (std::ranges::none_of(blocks, is_own)) continue;
      for (const std::uint32_t b : blocks) blocks_.keep(b);
      term.instances.push_back(static_cast<std::uint32_t>(i));
      term.counted.push_back(is_own(blocks[0]) ? 1 : 0);
      out_.again += is_own(blocks[0]) ? 0 : 1;
    }
    out_.residuals += term.instances.size();
    if (!term.instances.empty()) out_.terms.push_back(std::move(term));
  }

  void copy_term(const LocalModel::LocalTerm& chosen) {
    const runtime::Term& term = model_.terms[chosen.whole];
    const ir::Batch& batch = *term.batch;
    auto here = std::make_unique<ir::Batch>(batch.parameter_columns(), batch.uniform_columns(),
                                            batch.data_columns());
    std::vector<std::uint32_t> indices(batch.index_columns());
    std::vector<double> data(batch.data_columns());
    for (const std::uint32_t i : chosen.instances) {
      for (std::uint32_t c = 0; c < indices.size(); ++c) {
        const std::uint32_t index = batch.index(i, c);
        indices[c] = c < batch.parameter_columns() ? blocks_.scalar_here(index) : index;
      }
      for (std::uint32_t c = 0; c < data.size(); ++c) data[c] = batch.data(i, c);
      here->append(indices, data, batch.residual_row(i));
    }
    runtime::Term copy = term;
    copy.batch = here.get();
    out_.model.terms.push_back(std::move(copy));
    out_.batches.push_back(std::move(here));
  }

  const runtime::Model& model_;
  HeldBlocks blocks_;
  LocalModel out_;
};

}  // namespace

void LocalModel::narrow(std::span<const double> whole, std::span<double> here) const {
  for (const std::vector<Run>* runs : {&own, &ghosts})
    for (const Run& run : *runs)
      std::copy_n(whole.data() + run.whole, run.count, here.data() + run.here);
}

void LocalModel::widen(std::span<const double> here, std::span<double> whole) const {
  std::ranges::fill(whole, 0.0);
  for (const Run& run : own)
    std::copy_n(here.data() + run.here, run.count, whole.data() + run.whole);
}

LocalModel local_model(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
                       std::span<const int> rank_of_chunk, int rank) {
  return Cutter(model, chunks, rank_of_chunk, rank).cut();
}

}  // namespace topograd::distributed
