// Facts about a linear system for the decision, found on request, and construction of its solver.
#include "system_search.hpp"

#include "../../ir/error.hpp"
#include "factor_step.hpp"
#include "projected_step.hpp"
#include "schur_step.hpp"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace topograd {

std::optional<SchurIteration> schur_iteration(const SolverOptions& options) {
  if (!iterates_on_schur(options)) return std::nullopt;
  return SchurIteration{.tolerance = options.linear_tolerance,
                        .max_iterations = options.max_linear_iterations,
                        .eta = options.eta,
                        .energy_norm = options.scale_free};
}

SystemFacts SystemSearch::facts() const {
  SystemFacts out{
      .unknowns = model_.scalars - static_cast<std::uint64_t>(std::count(model_.constant.begin(),
                                                                         model_.constant.end(), 1)),
      .rows = model_.rows,
      .hinted = !hint_.empty(),
      .threads = options_.threads > 0
                     ? options_.threads
                     : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u))};
  double entries = 0;
  for (const runtime::Term& term : model_.terms) {
    const std::uint64_t columns = term.batch->parameter_columns();
    if (term.batch->size() == 0) continue;
    out.slots += term.batch->size() * columns;
    out.widest = std::max(out.widest, columns);
    entries += static_cast<double>(term.batch->size()) *
               static_cast<double>(term.topology->program.outputs.size()) *
               static_cast<double>(columns);
  }
  out.product_operations = 4 * entries;
  return out;
}

void SystemSearch::find(Fact fact, SystemFacts& facts) {
  switch (fact) {
    case Fact::elimination:
      // A hint is for steps by the Schur complement.
      elimination_ =
          find_elimination(model_, takes_energies(options_.method) ? EliminationHint{} : hint_);
      facts.elimination = {.blocks = elimination_->blocks.size(),
                           .eliminated = elimination_->eliminated,
                           .kept = elimination_->kept,
                           .reach = elimination_->reach,
                           .pays = elimination_->pays(),
                           .remains_wide = elimination_->remains_wide()};
      return;
    case Fact::device_elimination:
      facts.on_device = runtime::eliminate(engine_, eliminated_scalars(model_, *elimination_));
      return;
    case Fact::factor:
      try {
        factor_ = std::make_unique<CholeskyStep>(model_, LinearSolver::cholesky, options_.threads,
                                                 EliminationHint{}, std::nullopt, std::nullopt,
                                                 options_.factor);
        facts.factor = {factor_->factor_entries(), factor_->factor_flops()};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Unsupported) throw;
        constexpr double kBeyond = std::numeric_limits<double>::infinity();
        facts.factor = {kBeyond, kBeyond};
      }
      return;
    case Fact::device_factor: facts.device_factor = runtime::factorize(engine_, true); return;
    case Fact::none:
    case Fact::device:
    case Fact::scheduler:
    case Fact::system: return;  // other functions find these
  }
}

std::unique_ptr<StepSolver> SystemSearch::make(const LinearChoice& choice) {
  const bool factors = choice.by_engine && choice.kind == LinearSolver::cholesky;
  if (!factors && choice.system.device_factor) runtime::factorize(engine_, false);
  if (choice.kind == LinearSolver::pcg) {
    if (!model_.lower.empty()) return std::make_unique<ProjectedPcgStep>();
    return std::make_unique<PcgStep>(choice.forcing);
  }
  if (factors) return std::make_unique<FactorStep>(model_, options_.threads);
  if (choice.by_engine)
    return std::make_unique<SchurStep>(model_, std::move(*elimination_), options_.threads, hint_,
                                       schur_iteration(options_));
  if (factor_) return std::move(factor_);
  // An elimination that was found to pay is searched again when the model changes, and may not pay
  // then.
  const bool may_end = choice.reason == LinearReason::elimination;
  return std::make_unique<CholeskyStep>(model_, may_end ? LinearSolver::automatic : choice.kind,
                                        options_.threads, hint_, schur_iteration(options_),
                                        std::move(elimination_), options_.factor);
}

}  // namespace topograd
