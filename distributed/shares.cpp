// Joins the topologies, residuals and graphs of ranks that each have a share of them.
#include "shares.hpp"

#include "../frontend/block_kind.hpp"
#include "../ir/error.hpp"
#include "../ir/text.hpp"
#include "../runtime/cache/content_hash.hpp"
#include "communicator.hpp"
#include "local_model.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

namespace topograd::distributed {

/// A topology with its losses, as ranks tell each other of it.
struct Shares::Entry {
  ir::Hash128 key;  // of the structure
  ir::Hash128 hash;
  bool energy = false;
  std::string program, loss, label;

  static Entry of(const ProblemModel& model, std::size_t t) {
    const runtime::Term& term = model.model.terms[t];
    Entry entry{.key = {},
                .hash = term.topology->hash,
                .energy = term.energy,
                .program = ir::print(term.topology->program),
                .loss = term.loss == nullptr ? "" : ir::print(*term.loss),
                .label = std::string(model.problem->label(model.topologies[t]))};
    entry.key = runtime::hash_text(entry.structure());
    return entry;
  }
  static Entry take(Bytes& bytes) {
    Entry entry;
    entry.key = bytes.take<ir::Hash128>();
    entry.hash = bytes.take<ir::Hash128>();
    entry.energy = bytes.take<bool>();
    for (std::string* text : {&entry.program, &entry.loss, &entry.label}) *text = bytes.take_text();
    return entry;
  }
  void put_into(std::string& bytes) const {
    put(bytes, key);
    put(bytes, hash);
    put(bytes, energy);
    for (const std::string* text : {&program, &loss, &label}) put_text(bytes, *text);
  }
  std::string structure() const { return (energy ? "energy\n" : "residual\n") + program + loss; }
};

Shares::Shares(const Communicator& ranks, ProblemModel& model) : ranks_(ranks) {
  const std::vector<Entry> own = own_entries(model);
  take_terms(model, own, all_entries(own));
  count(model);
  join_uniforms(model.model);
}

std::vector<Shares::Entry> Shares::own_entries(const ProblemModel& model) const {
  std::vector<Entry> entries;
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) entries.push_back(Entry::of(model, t));
  return entries;
}

/// The first rank that has a topology sends it to the others.
std::vector<Shares::Entry> Shares::all_entries(const std::vector<Entry>& own) const {
  std::string keys;
  for (const Entry& entry : own) put(keys, entry.key);
  std::vector<ir::Hash128> order;
  std::map<ir::Hash128, int> first;
  int rank = 0;
  for (const std::string& of_rank : ranks_.gather_bytes(keys)) {
    for (Bytes bytes(of_rank); !bytes.empty();) {
      const auto key = bytes.take<ir::Hash128>();
      if (first.emplace(key, rank).second) order.push_back(key);
    }
    ++rank;
  }
  std::string mine;
  for (const Entry& entry : own)
    if (first.at(entry.key) == ranks_.rank()) entry.put_into(mine);
  std::vector<Entry> all;
  for (const std::string& of_rank : ranks_.gather_bytes(mine))
    for (Bytes bytes(of_rank); !bytes.empty();) all.push_back(Entry::take(bytes));
  return all;
}

/// Brings the model's terms to the order of all ranks.
void Shares::take_terms(ProblemModel& model, const std::vector<Entry>& own,
                        const std::vector<Entry>& all) {
  std::map<ir::Hash128, std::size_t> number;
  for (std::size_t t = 0; t < own.size(); ++t) number.emplace(own[t].key, t);
  std::vector<runtime::Term> terms;
  std::vector<std::size_t> topologies;
  for (const Entry& entry : all) {
    const BlockKind kind = entry.energy ? BlockKind::energy : BlockKind::residual;
    const std::string name =
        entry.label.empty() ? std::string(noun(kind)) + std::to_string(terms.size()) : entry.label;
    const auto found = number.find(entry.key);
    if (found != number.end()) {
      if (own[found->second].structure() != entry.structure())
        throw Error(ErrorCode::Internal, "distributed: two topologies have one hash");
      terms.push_back(model.model.terms[found->second]);
      terms.back().name = name;
      topologies.push_back(model.topologies[found->second]);
      continue;
    }
    topologies_.push_back(std::make_unique<const ir::Topology>(
        ir::Topology{.program = ir::parse(entry.program), .hash = entry.hash}));
    const ir::LeafCounts& leaves = topologies_.back()->program.leaves;
    batches_.push_back(
        std::make_unique<const ir::Batch>(leaves.parameters, leaves.uniforms, leaves.data));
    if (!entry.loss.empty())
      losses_.push_back(std::make_unique<const ir::Program>(ir::parse(entry.loss)));
    terms.push_back({.topology = topologies_.back().get(),
                     .batch = batches_.back().get(),
                     .name = name,
                     .energy = entry.energy,
                     .loss = entry.loss.empty() ? nullptr : losses_.back().get()});
    topologies.push_back(kNoTopology);
  }
  model.model.terms = std::move(terms);
  model.topologies = std::move(topologies);
}

void Shares::count(ProblemModel& model) {
  for (const runtime::Term& term : model.model.terms) instances_.push_back(term.batch->size());
  first_instance_ = ranks_.sum_before(instances_);
  ranks_.sum(instances_);
  const std::vector<std::uint64_t> rows = {model.model.rows, model.problem->energy_count()};
  const std::vector<std::uint64_t> before = ranks_.sum_before(rows);
  first_residual_ = before[0];
  first_energy_ = before[1];
  model.model.rows = ranks_.sum(model.model.rows);
}

namespace {

/// By the uniform: how many from it on are the numbers of one loss; 1 for others. Cost: a pass over
/// a column of each term with a loss.
std::vector<std::uint32_t> uniforms_together(const runtime::Model& model) {
  std::vector<std::uint32_t> lengths(model.uniforms.size(), 1);
  for (const runtime::Term& term : model.terms) {
    const std::uint32_t length = term.loss == nullptr ? 0 : term.loss->leaves.uniforms;
    if (length == 0) continue;
    const std::uint32_t column = term.batch->index_columns() - length;
    for (std::size_t i = 0; i < term.batch->size(); ++i)
      lengths[term.batch->index(i, column)] = length;
  }
  return lengths;
}

}  // namespace

// Ranks may number the uniforms of losses differently. Those of one loss stay neighbours in their
// order: devices read them from the index of the first one on.
void Shares::join_uniforms(const runtime::Model& model) {
  const std::vector<std::uint32_t> lengths = uniforms_together(model);
  const std::span<const double> own = model.uniforms;
  std::string runs;
  for (std::size_t k = 0; k < own.size(); k += lengths[k]) {
    const auto values = std::as_bytes(own.subspan(k, lengths[k]));
    put_text(runs, {reinterpret_cast<const char*>(values.data()), values.size()});
  }
  std::unordered_map<std::string, std::uint32_t> position;
  for (const std::string& of_rank : ranks_.gather_bytes(runs)) {
    for (Bytes left(of_rank); !left.empty();) {
      const std::string run = left.take_text();
      const auto next = static_cast<std::uint32_t>(uniforms_.size());
      if (!position.emplace(run, next).second) continue;
      for (Bytes values(run); !values.empty();) uniforms_.push_back(values.take<double>());
    }
  }
  for (Bytes left(runs); !left.empty();) {
    const std::string run = left.take_text();
    const std::uint32_t first = position.at(run);
    for (std::size_t j = 0; j < run.size() / sizeof(double); ++j)
      uniform_.push_back(first + static_cast<std::uint32_t>(j));
  }
}

std::string Shares::first_text(const std::string& here) const {
  for (std::string& text : ranks_.gather_bytes(here))
    if (!text.empty()) return std::move(text);
  return "";
}

void Shares::join(std::span<std::uint8_t> flags) const {
  constexpr std::size_t kMost = std::size_t{1} << 28;
  for (std::size_t first = 0; first < flags.size(); first += kMost)
    MPI_Allreduce(MPI_IN_PLACE, flags.data() + first,
                  static_cast<int>(std::min(kMost, flags.size() - first)), MPI_UINT8_T, MPI_BOR,
                  ranks_.comm());
}

ir::Hash128 Shares::sum(ir::Hash128 here) const {
  return {.high = ranks_.sum(here.high), .low = ranks_.sum(here.low)};
}

namespace {

/// The rows of one term on their way. Columns of parameters are those of the whole model.
class TermRows {
 public:
  TermRows(const Communicator& ranks, const runtime::Term& term, std::size_t number,
           const Shares& shares, HeldBlocks& blocks)
      : ranks_(ranks),
        term_(term),
        batch_(*term.batch),
        shares_(shares),
        first_instance_(shares.first_instance(number)),
        first_row_(shares.first_row(term.energy)),
        blocks_(blocks) {}

  /// Appends what this rank gets to `out`, in the order of the whole model.
  void move(std::size_t number, LocalModel& out) {
    make_room(number);
    const std::size_t slice = rows_at_once();
    const std::uint64_t rounds = most_of_ranks((batch_.size() + slice - 1) / slice);
    for (std::uint64_t k = 0; k < rounds; ++k) {
      const std::size_t first = std::min(k * slice, batch_.size());
      const std::vector<std::string> got =
          ranks_.exchange(packed(first, std::min(first + slice, batch_.size())));
      for (std::size_t r = 0; r < got.size(); ++r)
        for (Bytes bytes(got[r]); !bytes.empty();) unpack(bytes, next_[r]++);
    }
    out.residuals += here_.instances.size();
    out.again += static_cast<std::uint64_t>(std::ranges::count(here_.counted, 0));
    if (here_.instances.empty()) return;
    runtime::Term copy = term_;
    copy.batch = received_.get();
    out.model.terms.push_back(std::move(copy));
    out.batches.push_back(std::move(received_));
    out.terms.push_back(std::move(here_));
  }

 private:
  std::size_t rows_at_once() const {
    constexpr std::size_t kBytes = std::size_t{1} << 20U;
    const std::size_t row =
        12 + 4 * batch_.index_columns() + 8 * std::size_t{batch_.data_columns()};
    return std::max<std::size_t>(kBytes / row, 1);
  }

  std::uint64_t most_of_ranks(std::uint64_t number) const {
    MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_UINT64_T, MPI_MAX, ranks_.comm());
    return number;
  }

  /// The ranks that own a block of an instance.
  const std::vector<int>& ranks(std::size_t i) {
    found_.clear();
    for (std::uint32_t slot = 0; slot < batch_.parameter_columns(); ++slot) {
      const int rank = blocks_.rank_of(blocks_.block_of(batch_.index(i, slot)));
      if (std::ranges::find(found_, rank) == found_.end()) found_.push_back(rank);
    }
    return found_;
  }

  void make_room(std::size_t number) {
    const auto size = static_cast<std::size_t>(ranks_.size());
    std::vector<std::uint64_t> sent(size), received(size);
    for (std::size_t i = 0; i < batch_.size(); ++i)
      for (const int rank : ranks(i)) ++sent[static_cast<std::size_t>(rank)];
    MPI_Alltoall(sent.data(), 1, MPI_UINT64_T, received.data(), 1, MPI_UINT64_T, ranks_.comm());
    std::uint64_t total = 0;
    for (const std::uint64_t count : received) {
      next_.push_back(total);
      total += count;
    }
    received_ = std::make_unique<ir::Batch>(batch_.parameter_columns(), batch_.uniform_columns(),
                                            batch_.data_columns());
    if (total > 0) rows_ = received_->append_rows(total);
    here_ = {.whole = number,
             .instances = std::vector<std::uint32_t>(total),
             .counted = std::vector<std::uint8_t>(total)};
  }

  std::vector<std::string> packed(std::size_t first, std::size_t end) {
    std::vector<std::string> out(static_cast<std::size_t>(ranks_.size()));
    std::string row;
    for (std::size_t i = first; i < end; ++i) {
      row.clear();
      put(row, first_row_ + batch_.residual_row(i));
      put(row, static_cast<std::uint32_t>(first_instance_ + i));
      for (std::uint32_t c = 0; c < batch_.index_columns(); ++c) {
        const std::uint32_t index = batch_.index(i, c);
        put(row, c < batch_.parameter_columns() ? index : shares_.uniform(index));
      }
      for (std::uint32_t c = 0; c < batch_.data_columns(); ++c) put(row, batch_.data(i, c));
      for (const int rank : ranks(i)) out[static_cast<std::size_t>(rank)] += row;
    }
    return out;
  }

  void unpack(Bytes& bytes, std::size_t at) {
    const ir::Batch::NewRows& rows = rows_[at / ir::Batch::kBlockRows];
    const std::size_t i = at - rows.first;
    rows.row[i] = bytes.take<std::uint64_t>();
    here_.instances[at] = bytes.take<std::uint32_t>();
    for (std::uint32_t c = 0; c < batch_.index_columns(); ++c) {
      const auto index = bytes.take<std::uint32_t>();
      rows.index[c * rows.stride + i] = index;
      if (c >= batch_.parameter_columns()) continue;
      const std::uint32_t block = blocks_.block_of(index);
      blocks_.keep(block);
      if (c == 0) here_.counted[at] = blocks_.is_own(block) ? 1 : 0;
    }
    for (std::uint32_t c = 0; c < batch_.data_columns(); ++c)
      rows.data[c * rows.stride + i] = bytes.take<double>();
  }

  const Communicator& ranks_;
  const runtime::Term& term_;
  const ir::Batch& batch_;  // of this rank's share
  const Shares& shares_;
  std::uint64_t first_instance_, first_row_;
  HeldBlocks& blocks_;
  std::unique_ptr<ir::Batch> received_;
  std::vector<ir::Batch::NewRows> rows_;  // of it
  std::vector<std::uint64_t> next_;       // index of the next row of each rank
  LocalModel::LocalTerm here_;
  std::vector<int> found_;  // scratch
};

/// Numbers the scalars of all instances as the part does.
void renumber(LocalModel& part, const HeldBlocks& blocks) {
  for (const std::unique_ptr<ir::Batch>& batch : part.batches)
    for (std::size_t i = 0; i < batch->size(); ++i)
      for (std::uint32_t c = 0; c < batch->parameter_columns(); ++c)
        batch->set_index(i, c, blocks.scalar_here(batch->index(i, c)));
}

/// An edge from chunk a to chunk b.
struct Edge {
  std::uint32_t a = 0, b = 0;
  std::uint64_t rows = 0;
};

/// This rank's slice of the edges of all ranks, sorted: each edge once.
std::vector<Edge> joined_slice(const Communicator& ranks, const ChunkGraph& of_share) {
  const std::size_t chunks = of_share.weights.size();
  std::vector<std::string> sent(static_cast<std::size_t>(ranks.size()));
  Share reader = ranks.share();
  reader.number = 0;
  for (std::uint32_t a = 0; a < chunks; ++a) {
    while (!reader.slice(chunks).has(a)) ++reader.number;
    for (std::uint32_t e = of_share.starts[a]; e < of_share.starts[a + 1]; ++e)
      put(sent[reader.number], Edge{a, of_share.neighbours[e], of_share.shared[e]});
  }
  std::vector<Edge> edges, joined;
  for (const std::string& of_rank : ranks.exchange(sent))
    for (Bytes bytes(of_rank); !bytes.empty();) edges.push_back(bytes.take<Edge>());
  std::ranges::sort(edges, {}, [](const Edge& e) { return std::pair(e.a, e.b); });
  for (const Edge& edge : edges) {
    const bool again = !joined.empty() && joined.back().a == edge.a && joined.back().b == edge.b;
    if (again) {
      joined.back().rows += edge.rows;
    } else {
      joined.push_back(edge);
    }
  }
  return joined;
}

/// The edges of all ranks, sorted, on rank 0. Ranks join slices of them first, since all may have
/// the same ones.
std::vector<Edge> edges_at_first(const Communicator& ranks, const ChunkGraph& of_share) {
  std::vector<double> numbers;  // three for each edge, exact
  for (const Edge& edge : joined_slice(ranks, of_share))
    for (const auto number : {std::uint64_t{edge.a}, std::uint64_t{edge.b}, edge.rows})
      numbers.push_back(static_cast<double>(number));
  const std::vector<double> all = ranks.gather_at_first(numbers);
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < all.size(); k += 3)
    edges.push_back({static_cast<std::uint32_t>(all[k]), static_cast<std::uint32_t>(all[k + 1]),
                     static_cast<std::uint64_t>(all[k + 2])});
  return edges;
}

}  // namespace

LocalModel part_of_shares(const Communicator& ranks, const runtime::Model& model,
                          const Shares& shares, std::span<const runtime::Chunk> chunks,
                          std::span<const int> rank_of_chunk) {
  LocalModel out;
  HeldBlocks blocks(model, chunks, rank_of_chunk, ranks.rank());
  for (std::size_t t = 0; t < model.terms.size(); ++t)
    TermRows(ranks, model.terms[t], t, shares, blocks).move(t, out);
  blocks.number(out);
  renumber(out, blocks);
  out.model.rows = model.rows;
  out.model.uniforms.assign(shares.uniforms().begin(), shares.uniforms().end());
  out.model.revision = model.revision;
  return out;
}

ChunkGraph joined_graph(const Communicator& ranks, const ChunkGraph& of_share) {
  const std::size_t chunks = of_share.weights.size();
  ChunkGraph out{.weights = of_share.weights, .starts = std::vector<std::uint32_t>(chunks + 1)};
  for (std::uint64_t& weight : out.weights) --weight;  // 1 is the least of each graph
  ranks.sum(out.weights);
  for (std::uint64_t& weight : out.weights) ++weight;
  for (const Edge& edge : edges_at_first(ranks, of_share)) {
    ++out.starts[edge.a + 1];
    out.neighbours.push_back(edge.b);
    out.shared.push_back(edge.rows);
  }
  std::partial_sum(out.starts.begin(), out.starts.end(), out.starts.begin());
  return out;
}

}  // namespace topograd::distributed
