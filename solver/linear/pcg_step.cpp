// Steps by conjugate gradients on the engine.
#include "pcg_step.hpp"

#include "cholesky.hpp"

namespace topograd {

runtime::StepReport PcgStep::try_step(runtime::Engine& engine,
                                      const runtime::StepRequest& request) {
  if (request.lambda > 0 || !leaves_out_damping(engine))
    return runtime::damped_steps(engine).try_step(request);
  CholeskyStep exact(model_, LinearSolver::cholesky, work_);
  LinearizedPoint here(exact, engine, point_);
  return here.try_step(request).report;
}

}  // namespace topograd
