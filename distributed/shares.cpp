// Matches the topologies of all ranks, and counts their instances.
#include "shares.hpp"

#include "../frontend/block_kind.hpp"
#include "../ir/error.hpp"
#include "../ir/text.hpp"
#include "../runtime/cache/content_hash.hpp"
#include "bytes.hpp"

#include <algorithm>
#include <map>
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

/// Each topology is told by the first rank that has it.
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
  std::string told;
  for (const Entry& entry : own)
    if (first.at(entry.key) == ranks_.rank()) entry.put_into(told);
  std::vector<Entry> all;
  for (const std::string& of_rank : ranks_.gather_bytes(told))
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
// order: devices read them from the place of the first one on.
void Shares::join_uniforms(const runtime::Model& model) {
  const std::vector<std::uint32_t> lengths = uniforms_together(model);
  const std::span<const double> own = model.uniforms;
  std::string runs;
  for (std::size_t k = 0; k < own.size(); k += lengths[k]) {
    const auto values = std::as_bytes(own.subspan(k, lengths[k]));
    put_text(runs, {reinterpret_cast<const char*>(values.data()), values.size()});
  }
  std::unordered_map<std::string, std::uint32_t> place;
  for (const std::string& of_rank : ranks_.gather_bytes(runs)) {
    for (Bytes left(of_rank); !left.empty();) {
      const std::string run = left.take_text();
      const auto next = static_cast<std::uint32_t>(uniforms_.size());
      if (!place.emplace(run, next).second) continue;
      for (Bytes values(run); !values.empty();) uniforms_.push_back(values.take<double>());
    }
  }
  for (Bytes left(runs); !left.empty();) {
    const std::string run = left.take_text();
    const std::uint32_t first = place.at(run);
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

}  // namespace topograd::distributed
