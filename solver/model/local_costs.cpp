// The blocks that read an unknown, and their costs on the interpreter.
#include "local_costs.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../runtime/rows/rows.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace topograd {

namespace {

constexpr std::uint32_t kUnread = std::numeric_limits<std::uint32_t>::max();
// Blocks of a term that are evaluated at once.
constexpr std::size_t kAtOnce = std::size_t{1} << 16;

/// Divides unknowns around some of them into groups.
class Grouping {
 public:
  /// Arguments as in groups_around().
  Grouping(const LocalCosts& costs, std::span<const std::uint32_t> moving, std::size_t most)
      : costs_(costs),
        moving_(moving),
        most_(most),
        is_seed_(moving.size()),
        group_(moving.size()),
        owner_(costs.blocks()) {}

  std::vector<UnknownGroup> around(std::span<const std::uint32_t> seeds) {
    for (const std::uint32_t seed : seeds)
      if (const std::size_t k = number_of(seed); k < is_seed_.size()) is_seed_[k] = true;
    std::vector<UnknownGroup> out;
    for (const std::uint32_t seed : seeds) {
      UnknownGroup group;
      ++count_;
      if (!add(seed, group)) continue;
      grow(group, true);
      grow(group, false);
      std::ranges::sort(group.unknowns);
      std::ranges::sort(group.blocks);
      out.push_back(std::move(group));
    }
    return out;
  }

 private:
  /// Number of an unknown among those that move; the number of these for another one.
  std::size_t number_of(std::uint32_t scalar) const {
    const auto found = std::ranges::lower_bound(moving_, scalar);
    const bool moves = found != moving_.end() && *found == scalar;
    return static_cast<std::size_t>((moves ? found : moving_.end()) - moving_.begin());
  }

  /// False if the unknown does not move, is in a group, or shares blocks with another one.
  bool add(std::uint32_t scalar, UnknownGroup& group) {
    const std::size_t k = number_of(scalar);
    if (k == group_.size() || group_[k] != 0) return false;
    const std::span<const std::uint32_t> readers = costs_.readers(k);
    const auto is_taken = [&](std::uint32_t b) { return owner_[b] != 0 && owner_[b] != count_; };
    if (readers.empty() || std::ranges::any_of(readers, is_taken)) return false;
    group_[k] = count_;
    group.unknowns.push_back(scalar);
    for (const std::uint32_t block : readers)
      if (std::exchange(owner_[block], count_) == 0) group.blocks.push_back(block);
    return true;
  }

  void grow(UnknownGroup& group, bool by_seeds) {
    for (std::size_t b = 0; b < group.blocks.size(); ++b) {
      for (const std::uint32_t scalar : costs_.reads(group.blocks[b])) {
        if (group.unknowns.size() == most_) return;
        const std::size_t k = number_of(scalar);
        if (k < is_seed_.size() && (is_seed_[k] || !by_seeds)) add(scalar, group);
      }
    }
  }

  const LocalCosts& costs_;
  std::span<const std::uint32_t> moving_;
  std::size_t most_;
  std::vector<bool> is_seed_;         // by number
  std::vector<std::uint32_t> group_;  // by number; 0: none
  std::vector<std::uint32_t> owner_;  // by block: the group whose unknowns read it; 0: none
  std::uint32_t count_ = 0;
};

}  // namespace

/// Leaves of blocks of one term, and where each of them comes from.
struct LocalCosts::Table {
  runtime::Rows rows;
  std::vector<std::uint32_t> probe, block;

  void add(const runtime::Rows& row, std::size_t of_probe, std::uint32_t of_block) {
    const auto append = [](runtime::Columns& to, const runtime::Columns& from) {
      to.resize(from.size());
      for (std::size_t c = 0; c < from.size(); ++c) to[c].push_back(from[c][0]);
    };
    append(rows.parameters, row.parameters);
    append(rows.data, row.data);
    append(rows.uniforms, row.uniforms);
    ++rows.count;
    probe.push_back(static_cast<std::uint32_t>(of_probe));
    block.push_back(of_block);
  }
};

LocalCosts::LocalCosts(const ProblemModel& model, std::span<const std::uint32_t> unknowns)
    : model_(model), first_(1), start_(unknowns.size() + 1), unknowns_(unknowns) {
  std::vector<std::uint32_t> number(model.model.scalars, kUnread);
  for (std::uint32_t k = 0; k < unknowns.size(); ++k) number[unknowns[k]] = k;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> found;  // unknown, block
  for (const runtime::Term& term : model.model.terms) {
    const ir::Batch& batch = *term.batch;
    for (std::size_t i = 0; i < batch.size(); ++i)
      for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot)
        if (const std::uint32_t k = number[batch.index(i, slot)]; k != kUnread)
          found.emplace_back(k, first_.back() + static_cast<std::uint32_t>(i));
    first_.push_back(first_.back() + static_cast<std::uint32_t>(batch.size()));
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const auto& [unknown, block] : found) {
    readers_.push_back(block);
    start_[unknown + 1] = readers_.size();
  }
  for (std::size_t k = 0; k < unknowns.size(); ++k)
    start_[k + 1] = std::max(start_[k], start_[k + 1]);
}

std::vector<std::uint32_t> LocalCosts::reads(std::uint32_t block) const {
  const auto next = std::ranges::upper_bound(first_, block);
  const auto t = static_cast<std::size_t>(next - first_.begin()) - 1;
  const ir::Batch& batch = *model_.model.terms[t].batch;
  std::vector<std::uint32_t> out;
  for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot)
    out.push_back(batch.index(block - first_[t], slot));
  return out;
}

template <class Visit>
void LocalCosts::evaluate(runtime::Pass pass, std::span<const double> x,
                          std::span<const Probe> probes, const Visit& visit) const {
  const std::unique_ptr<runtime::RowRunner> runner =
      runtime::cpu::make_row_runner(runtime::Precision::f64);
  const std::size_t terms = model_.model.terms.size();
  std::vector<ir::Program> programs(terms);
  std::vector<Table> tables(terms);
  const auto run = [&](std::size_t t) {
    Table& table = tables[t];
    if (table.rows.count == 0) return;
    const runtime::Term& term = model_.model.terms[t];
    const ir::Program& f = term.topology->program;
    if (programs[t].outputs.empty())
      programs[t] = runtime::pass_program(pass, f, autodiff::all_slots(f), term.energy, term.loss);
    const runtime::Columns columns = runner->run(programs[t], table.rows);
    for (std::size_t i = 0; i < table.rows.count; ++i)
      visit(t, table.probe[i], table.block[i], columns, i);
    table = {};
  };
  std::vector<double> there(x.begin(), x.end());
  for (std::size_t p = 0; p < probes.size(); ++p) {
    const Probe& probe = probes[p];
    for (std::size_t k = 0; k < probe.unknowns.size(); ++k)
      there[probe.unknowns[k]] = probe.values[k];
    std::size_t t = 0;
    for (const std::uint32_t block : probe.blocks) {
      while (block >= first_[t + 1]) ++t;
      tables[t].add(rows_of(model_.model, model_.model.terms[t], there, block - first_[t], 1), p,
                    block);
      if (tables[t].rows.count == kAtOnce) run(t);
    }
    for (const std::uint32_t unknown : probe.unknowns) there[unknown] = x[unknown];
  }
  for (std::size_t t = 0; t < terms; ++t) run(t);
}

std::vector<double> LocalCosts::costs(std::span<const double> x,
                                      std::span<const Probe> probes) const {
  std::vector<double> out(probes.size());
  evaluate(runtime::Pass::cost, x, probes,
           [&](std::size_t, std::uint32_t probe, std::uint32_t, const runtime::Columns& columns,
               std::size_t i) { out[probe] += columns[0][i]; });
  return out;
}

std::vector<double> LocalCosts::squares(std::span<const double> x) const {
  std::vector<Probe> probes(unknowns_.size());
  for (std::size_t k = 0; k < probes.size(); ++k) probes[k] = {readers(k), {}, {}};
  std::vector<double> out(probes.size());
  evaluate(runtime::Pass::diagonal, x, probes,
           [&](std::size_t t, std::uint32_t probe, std::uint32_t block,
               const runtime::Columns& columns, std::size_t i) {
             const ir::Batch& batch = *model_.model.terms[t].batch;
             for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot)
               if (batch.index(block - first_[t], slot) == unknowns_[probe])
                 out[probe] += columns[slot][i];
           });
  return out;
}

std::vector<UnknownGroup> groups_around(const LocalCosts& costs,
                                        std::span<const std::uint32_t> moving,
                                        std::span<const std::uint32_t> seeds, std::size_t most) {
  return Grouping(costs, moving, most).around(seeds);
}

}  // namespace topograd
