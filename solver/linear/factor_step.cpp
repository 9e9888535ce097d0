// Steps by a sparse factor of the normal equations that the engine makes.
#include "factor_step.hpp"

#include "../../ir/machine/state_record.hpp"
#include "projected_step.hpp"

#include <algorithm>
#include <limits>

namespace topograd {
namespace {

// Damping at the level of rounding: the device has no rows to go on with where pivots vanish.
constexpr double kLeastDamping = 1e-15;

}  // namespace

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

CholeskyStep& FactorStep::host() {
  if (!host_) host_ = std::make_unique<CholeskyStep>(model_, LinearSolver::cholesky, work_);
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

}  // namespace topograd
