// Steps by conjugate gradients on the engine.
#include "pcg_step.hpp"

#include "cholesky.hpp"

#include <algorithm>

namespace topograd {

std::uint64_t PcgStep::most_undamped(const runtime::Engine& engine) const {
  const bool known = engine.backend() == runtime::Backend::cpu && model_.manifolds == nullptr &&
                     model_.lower.empty();
  return known ? CholeskyStep::most_by_rows(model_) : 0;
}

bool PcgStep::knows_columns(const runtime::Engine& engine) const {
  const std::uint64_t unknowns =
      model_.scalars -
      static_cast<std::uint64_t>(std::count(model_.constant.begin(), model_.constant.end(), 1));
  return unknowns <= most_undamped(engine);
}

std::vector<double> PcgStep::column_squares(runtime::Engine& engine) {
  CholeskyStep exact(model_, LinearSolver::cholesky, work_);
  return LinearizedPoint(exact, engine, point_).column_squares();
}

runtime::StepReport PcgStep::try_step(runtime::Engine& engine,
                                      const runtime::StepRequest& request) {
  if (request.lambda > 0 || most_undamped(engine) == 0)
    return runtime::damped_steps(engine).try_step(request);
  CholeskyStep exact(model_, LinearSolver::cholesky, work_);
  LinearizedPoint here(exact, engine, point_);
  return here.try_step(request).report;
}

}  // namespace topograd
