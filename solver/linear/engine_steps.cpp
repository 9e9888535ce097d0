// Steps that the engine solves for: by conjugate gradients, a sparse factor, or a Schur complement.
#include "engine_steps.hpp"

#include "../../ir/machine/state_record.hpp"
#include "direct_step.hpp"
#include "projected_step.hpp"

#include <algorithm>
#include <limits>

namespace topograd {
namespace {

// Damping at the level of rounding: the device has no rows to go on with where pivots vanish.
constexpr double kLeastDamping = 1e-15;

}  // namespace

std::uint64_t PcgStep::most_undamped(const runtime::Engine& engine) const {
  const bool known = engine.backend() == runtime::Backend::cpu && model_.manifolds == nullptr &&
                     model_.lower.empty();
  return known ? DirectStep::most_by_rows(model_) : 0;
}

bool PcgStep::knows_columns(const runtime::Engine& engine) const {
  const std::uint64_t unknowns =
      model_.scalars -
      static_cast<std::uint64_t>(std::count(model_.constant.begin(), model_.constant.end(), 1));
  return unknowns <= most_undamped(engine);
}

std::vector<double> PcgStep::column_squares(runtime::Engine& engine) {
  DirectStep exact(model_, LinearSolver::cholesky, work_);
  return LinearizedPoint(exact, engine, point_).column_squares();
}

runtime::StepReport PcgStep::try_step(runtime::Engine& engine,
                                      const runtime::StepRequest& request) {
  if (request.lambda > 0 || most_undamped(engine) == 0)
    return runtime::damped_steps(engine).try_step(request);
  DirectStep exact(model_, LinearSolver::cholesky, work_);
  LinearizedPoint here(exact, engine, point_);
  return here.try_step(request).report;
}

std::string FactorStep::note() const {
  return vanished_pivots_note(vanished_) + (host_ ? host_->note() : "");
}

void FactorStep::begin_solve() {
  vanished_ = 0;
  if (host_) host_->begin_solve();
}

void FactorStep::transfer(ir::StateRecord& record) {
  bool on_host = host_ != nullptr;
  record.value("factors on the host", on_host);
  if (on_host) host().transfer(record);
  record.value("vanished pivots on the device", vanished_);
}

DirectStep& FactorStep::host() {
  if (!host_) host_ = std::make_unique<DirectStep>(model_, LinearSolver::cholesky, work_);
  return *host_;
}

bool FactorStep::by_host(const runtime::Engine& engine) const {
  if (bounded() || model_.manifolds) return false;
  return !possible_ || engine.backend() == runtime::Backend::cpu;
}

std::vector<double> FactorStep::column_squares(runtime::Engine& engine) {
  return host().column_squares(engine);
}

void FactorStep::linearized(runtime::Engine& engine, runtime::PointReport& point) {
  const bool on_device = engine.backend() != runtime::Backend::cpu;
  if (on_device && revision_ != model_.revision) {  // branches may have changed which blocks meet
    revision_ = model_.revision;
    possible_ = runtime::factorize(engine, true).possible;
  }
  cost_ = point.cost;
  if (by_host(engine)) host().linearized(engine, point);
}

runtime::StepReport FactorStep::try_step(runtime::Engine& engine,
                                         const runtime::StepRequest& request) {
  if (by_host(engine)) return host().try_step(engine, request);
  runtime::StepRequest asked = request;
  asked.lambda = std::max(asked.lambda, kLeastDamping);
  runtime::StepReport report = bounded() ? try_projected(engine, asked, cost_)
                                         : runtime::damped_steps(engine).try_step(asked);
  vanished_ += report.vanished_pivots;
  // The device does not say how much they hide.
  if (report.vanished_pivots > 0) report.hidden_decrease = std::numeric_limits<double>::infinity();
  return report;
}

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

void SchurStep::begin_solve() {
  if (host_) host_->begin_solve();
}

void SchurStep::transfer(ir::StateRecord& record) {
  bool on_host = host_ != nullptr;
  record.value("factors on the host", on_host);
  if (on_host) host().transfer(record);
}

DirectStep& SchurStep::host() {
  if (!host_) {
    host_ = std::make_unique<DirectStep>(model_, LinearSolver::schur, work_, hint_, limits_);
  }
  return *host_;
}

std::vector<double> SchurStep::column_squares(runtime::Engine& engine) {
  return host().column_squares(engine);
}

void SchurStep::linearized(runtime::Engine& engine, runtime::PointReport& point) {
  const bool on_device = engine.backend() != runtime::Backend::cpu;
  if (on_device && revision_ != model_.revision) {  // branches may have changed which blocks meet
    revision_ = model_.revision;
    const Elimination found = find_elimination(model_, hint_);
    possible_ = runtime::eliminate(engine, eliminated_scalars(model_, found)).possible;
  }
  if (by_host(engine)) host().linearized(engine, point);
}

runtime::StepReport SchurStep::try_step(runtime::Engine& engine,
                                        const runtime::StepRequest& request) {
  return by_host(engine) ? host().try_step(engine, request)
                         : runtime::damped_steps(engine).try_step(request);
}

}  // namespace topograd
