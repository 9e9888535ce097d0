// Tables of the residual blocks that read chosen unknowns, and their evaluation by rows.
#include "local_costs.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace topograd {
namespace {

constexpr std::uint32_t kUnread = std::numeric_limits<std::uint32_t>::max();
// Blocks of a term that are evaluated at once.
constexpr std::size_t kAtOnce = std::size_t{1} << 16;

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

}  // namespace topograd
