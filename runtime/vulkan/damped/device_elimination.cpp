// Plans and lists of steps through a Schur complement.
#include "device_elimination.hpp"

#include "../../../ir/machine/state_record.hpp"

#include <chrono>
#include <utility>

namespace topograd::runtime::vulkan {

EliminationUse DeviceElimination::eliminate(std::span<const std::uint8_t> scalars) {
  *solve_ = {};
  eliminated_.assign(scalars.begin(), scalars.end());
  if (scalars.empty()) return {};
  const Why<MatrixReason> why = plan();
  if (!solve_->schur) eliminated_.clear();
  return {.possible = solve_->schur != nullptr, .why = why};
}

Why<MatrixReason> DeviceElimination::plan() {
  if (eliminated_.size() != problem_.model().scalars) return {MatrixReason::other_unknowns};
  if (moves_.has_bounds_or_manifolds()) return {MatrixReason::bounds_or_manifolds};
  std::vector<std::uint8_t> ordered = eliminated_;
  if (!problem_.order().identity()) {
    for (std::size_t k = 0; k < ordered.size(); ++k)
      ordered[problem_.order().position[k]] = eliminated_[k];
  }
  const auto start = std::chrono::steady_clock::now();
  SchurPlan plan = plan_schur(problem_.model(), ordered, terms_.slot_groups());
  if (plan.possible()) plan.why = DeviceSchur::obstacle(context_, plan, terms_.all());
  if (!plan.possible()) return plan.why;
  const Why<MatrixReason> why =
      because(MatrixReason::eliminated, plan.eliminated.size(), plan.unknowns());
  solve_->schur = std::make_unique<DeviceSchur>(context_, *v_.ops, std::move(plan), terms_.all(),
                                                v_.diagonal_positions);
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return why;
}

SchurOperands DeviceElimination::operands() const {
  return {.gradient = &v_.gradient,
          .blocks = &v_.packed,
          .scale = &v_.scale,
          .damping = &v_.damping,
          .fixed = &v_.fixed,
          .step = &v_.step,
          .residual = &v_.residual};
}

const SolveLists* DeviceElimination::prepare() {
  if (const SolveLists* const lists = factorization_.prepare()) return lists;
  if (eliminated_.empty()) return nullptr;
  if (!solve_->schur) plan();  // the model has changed
  if (!solve_->schur) return nullptr;
  SolveLists& lists = factorises() ? solve_->factorises : solve_->iterates;
  if (!lists.start.list) lists = make_lists();
  return &lists;
}

void DeviceElimination::record_all(CommandList& list) {
  factorization_.record(list);
  if (!solve_->schur) return;
  DeviceSchur& schur = *solve_->schur;
  schur.record_start(list, terms_.operands(v_.x), operands());
  schur.record_iterations(list, 2);
  if (schur.factor_dispatches() > 0) schur.record_factored(list, terms_.operands(v_.x), operands());
  schur.record_finish(list, operands());
}

SolveLists DeviceElimination::make_lists() {
  DeviceSchur& schur = *solve_->schur;
  Recorder::make([&](CommandList& l) { record_all(l); });
  SolveLists lists;
  if (factorises()) {
    lists.start = recorder_.make_list("schur_factor", [&](CommandList& l) {
      schur.record_factored(l, terms_.operands(v_.x), operands());
    });
    lists.iterations = recorder_.make_list("schur_no_iterations", [](CommandList&) {});
  } else {
    lists.start = recorder_.make_list("schur_start", [&](CommandList& l) {
      schur.record_start(l, terms_.operands(v_.x), operands());
    });
    lists.iterations = recorder_.make_list(
        "schur_iterations", [&](CommandList& l) { schur.record_iterations(l, kIterationsOfList); });
  }
  lists.finish = recorder_.make_list("schur_finish",
                                     [&](CommandList& l) { schur.record_finish(l, operands()); });
  return lists;
}

bool DeviceElimination::factorises() const {
  return factorises_ && solve_->schur->factor_dispatches() > 0;
}

// An iteration has two dispatches and barriers, so a factor takes as long as half of these many.
void DeviceElimination::solved(int iterations) {
  if (!solve_->schur || iterations <= 0) return;
  const std::uint64_t dispatches = solve_->schur->factor_dispatches();
  if (dispatches > 0 && static_cast<std::uint64_t>(iterations) > dispatches) factorises_ = true;
}

void DeviceElimination::transfer(ir::StateRecord& record) {
  record.value("factorises the complement", factorises_);
}

}  // namespace topograd::runtime::vulkan
