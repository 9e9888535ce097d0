// Steps by conjugate gradients on the engine.
#include "pcg_step.hpp"

#include "cholesky.hpp"

namespace topograd {

std::uint64_t PcgStep::most_undamped(const runtime::Engine& engine) const {
  const bool known = engine.backend() == runtime::Backend::cpu && model_.manifolds == nullptr &&
                     model_.lower.empty();
  return known ? CholeskyStep::most_by_rows(model_) : 0;
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
