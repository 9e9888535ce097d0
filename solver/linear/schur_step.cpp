// Steps by a Schur complement that the engine forms and solves.
#include "schur_step.hpp"

#include "../../ir/machine/state_record.hpp"

#include <utility>

namespace topograd {

std::vector<std::uint8_t> eliminated_scalars(const runtime::Model& model,
                                             const Elimination& elimination) {
  std::vector<std::uint8_t> flags(model.scalars, 0);
  auto next = elimination.blocks.begin();
  std::uint32_t column = 0;  // among free scalars
  for (const runtime::ParameterArray& array : model.arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b) {
      const std::uint64_t first = array.offset + b * array.width;
      const std::uint32_t before = column;
      for (std::uint64_t k = first; k < first + array.width; ++k)
        column += model.constant.empty() || !model.constant[k] ? 1 : 0;
      if (column == before || next == elimination.blocks.end() || next->first != before) continue;
      ++next;
      for (std::uint64_t k = first; k < first + array.width; ++k) flags[k] = 1;
    }
  }
  return flags;
}

SchurStep::SchurStep(const runtime::Model& model, Elimination elimination,
                     const runtime::cpu::CpuWork& work, EliminationHint hint,
                     const std::optional<SchurIteration>& limits)
    : model_(model),
      elimination_(std::move(elimination)),
      hint_(std::move(hint)),
      work_(work),
      limits_(limits),
      revision_(model.revision) {}

void SchurStep::begin_solve() {
  if (host_) host_->begin_solve();
}

void SchurStep::transfer(ir::StateRecord& record) {
  bool on_host = host_ != nullptr;
  record.value("factors on the host", on_host);
  if (on_host) host().transfer(record);
}

CholeskyStep& SchurStep::host() {
  if (!host_) {
    host_ = std::make_unique<CholeskyStep>(model_, LinearSolver::schur, work_, hint_, limits_);
  }
  return *host_;
}

std::vector<double> SchurStep::column_squares(runtime::Engine& engine) {
  return host().column_squares(engine);
}

void SchurStep::linearized(runtime::Engine& engine, runtime::PointReport& point) {
  if (engine.backend() == runtime::Backend::cpu) return host().linearized(engine, point);
  if (revision_ == model_.revision) return;
  revision_ = model_.revision;  // branches may have changed which blocks meet
  elimination_ = find_elimination(model_, hint_);
  runtime::eliminate(engine, eliminated_scalars(model_, elimination_));
}

runtime::StepReport SchurStep::try_step(runtime::Engine& engine,
                                        const runtime::StepRequest& request) {
  return engine.backend() == runtime::Backend::cpu
             ? host_->try_step(engine, request)
             : runtime::damped_steps(engine).try_step(request);
}

}  // namespace topograd
