// Facts of model and plan as a summary has them.
#include "describe.hpp"

#include "../../frontend/inspect/problem_use.hpp"
#include "../../runtime/plan/requests.hpp"
#include "../linear/factor/factorization.hpp"
#include "../plan/report.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <numeric>
#include <vector>

namespace topograd {

std::vector<TopologySummary> topologies_of(const ProblemModel& model) {
  std::vector<TopologySummary> out;
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
    const runtime::Term& term = model.model.terms[t];
    out.push_back({.hash = to_string(term.topology->hash),
                   .name = term.name,
                   .instances = model.instances(t),
                   .outputs = static_cast<std::uint32_t>(term.topology->program.outputs.size())});
  }
  return out;
}

const ProblemReads& ReadsOfModel::of(const ProblemModel& model) {
  const Problem& problem = *model.problem;
  const Versions present = problem.versions();
  const bool shared = model.shares != nullptr;
  if (!shared && known_ && versions_ == present) return reads_;
  const std::uint64_t here = rows_left_out(problem);
  const std::uint64_t left_out = shared ? model.shares->sum({.low = here}).low : here;
  const bool same = known_ && versions_.structure == present.structure &&
                    versions_.constants == present.constants;
  const bool weights_matter = left_out > 0 || reads_.left_out > 0;
  versions_ = present;
  if (!shared && same && !weights_matter) return reads_;
  known_ = true;
  std::vector<std::uint8_t> read = read_scalars(problem);
  if (shared) model.shares->join(read);
  reads_ = {.unread = unread_blocks(problem, read), .left_out = left_out};
  if (left_out > 0) {
    read = scalars_with_data(problem);
    if (shared) model.shares->join(read);
  }
  reads_.unknowns = free_coordinates(problem, read);
  return reads_;
}

void describe_problem(SolveState& state, const ProblemReads& reads) {
  const Problem& problem = state.problem;
  const runtime::Model& model = state.model.model;
  Summary& summary = state.summary;
  summary.precision = state.options.precision;
  summary.method = state.outer_method;
  summary.step_method = state.options.method;
  summary.parameters = model.scalars;
  summary.residuals = model.rows - (state.constrained() ? problem.constraint_count() : 0);
  if (!state.facts.want_host()) {
    summary.unknowns = model.scalars;
    for (const std::uint8_t constant : model.constant) summary.unknowns -= constant ? 1 : 0;
  }
  summary.host_residuals = problem.host_blocks().size();
  summary.long_expressions = ProblemUse::long_expressions(problem);
  summary.shared_values = ProblemUse::shared_values(problem);
  summary.energies = state.model.energies();
  summary.topologies = topologies_of(state.model);
  summary.left_out = reads.left_out;
  summary.read_unknowns = reads.unknowns;
  summary.unread_blocks = reads.unread;
  for (std::size_t k = 0; k < std::min(reads.unread.size(), kMostUnreadNames); ++k)
    summary.unread_names.push_back(block_text(problem, reads.unread[k]));
}

void describe_factor(const Plan& plan, const SolverOptions& options, Summary& summary) {
  const LinearChoice& linear = plan.linear;
  const FactorPlace backend = linear.factor.backend;
  summary.factor = backend == FactorPlace::device && linear.by_engine
                       ? FactorPlace::device
                       : used_on_host(options.factor);
  summary.factor_note = factor_text(plan);
  if (summary.factor != FactorPlace::device) return;
  summary.factor_bytes = linear.system.device_factor->bytes;
  summary.predicted_factor_bytes = linear.system.device_factor->predicted_bytes;
}

std::string out_of_memory(const runtime::Model& model) {
  std::uint32_t widest = 0;
  for (const runtime::Term& term : model.terms)
    widest = std::max(widest, term.batch->parameter_columns());
  return "solve: out of host memory, with " + std::to_string(model.scalars) +
         " scalars and residuals that read up to " + std::to_string(widest) +
         " of them each; pcg (linear_solver) and lbfgs (method) need the least";
}

std::string text_of_current_error() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown error";
  }
}

namespace {

/// Microseconds of one call of a kernel, as the plan measured its pass; 0: it did not.
double planned_us(const runtime::PlanRecord& plan, const runtime::KernelTime& kernel) {
  for (const runtime::PlanChoice& made : plan.batches) {
    if (made.topology != kernel.topology ||
        runtime::identifier(made.name) + "_" + made.pass != kernel.name)
      continue;
    for (const runtime::PlanCandidate& one : made.candidates)
      if (one.accumulation == made.accumulation && one.one_pass == made.one_pass)
        return one.measured_us;
  }
  return 0;
}

}  // namespace

void describe_profile(const runtime::Profile& profile, double copy_rate, Summary& summary) {
  // Equal literals of several files make several rows.
  std::vector<runtime::KernelTime> rows;
  std::vector<std::uint32_t> first_equal;
  for (const runtime::KernelTime& one : profile.rows()) {
    const auto same = std::ranges::find_if(rows, [&](const runtime::KernelTime& other) {
      return other.name == one.name && other.topology == one.topology && other.work == one.work;
    });
    first_equal.push_back(static_cast<std::uint32_t>(same - rows.begin()));
    if (same == rows.end()) {
      rows.push_back(one);
      continue;
    }
    same->calls += one.calls;
    same->us += one.us;
    same->bytes += one.bytes;
    same->longest_us = std::max(same->longest_us, one.longest_us);
  }
  for (runtime::KernelTime& one : rows) {
    one.longest_us = std::min(one.longest_us, one.us);  // a device may have run meanwhile
    one.predicted_us = planned_us(summary.plan, one) * static_cast<double>(one.calls);
    if (one.predicted_us == 0 && copy_rate > 0)
      one.predicted_us = static_cast<double>(one.bytes) / copy_rate * 1e6;
  }
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(
      order, [&](std::uint32_t a, std::uint32_t b) { return rows[a].us > rows[b].us; });
  std::vector<std::uint32_t> rank(rows.size());
  for (std::uint32_t k = 0; k < order.size(); ++k) {
    rank[order[k]] = k;
    summary.kernels.push_back(rows[order[k]]);
  }
  summary.profile = {.measured = true,
                     .step_us = profile.watched_us(),
                     .copy_rate = copy_rate,
                     .note = profile.note(),
                     .events = profile.events(),
                     .events_left_out = profile.events_left_out()};
  for (runtime::ProfileEvent& event : summary.profile.events)
    event.row = rank[first_equal[event.row]];
}

}  // namespace topograd
