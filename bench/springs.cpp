// How long do residuals and Jacobian of a grid of springs take on the CPU, beside Ceres in the same
// run?
#include "problems/springs.hpp"

#include <topograd/runtime/cpu/engine.hpp>
#include <topograd/solver/model.hpp>

#include <benchmark/benchmark.h>

#include <vector>

#ifdef TOPOGRAD_WITH_CERES
#include <ceres/ceres.h>
#endif

namespace {

using namespace topograd;

void topograd_residuals_and_jacobian(benchmark::State& state) {
  const auto springs = problems::springs(static_cast<std::uint32_t>(state.range(0)));
  const ProblemModel model = make_model("bench", springs->problem);
  const auto engine = runtime::cpu::make_cpu_engine(model.model, {.threads = 2});
  engine->set_point(springs->x);
  for (auto _ : state) {
    const runtime::Timing timing = engine->time(runtime::KernelKind::jacobian, 0, 1);
    state.SetIterationTime(timing.wall_us * 1e-6);
  }
}
BENCHMARK(topograd_residuals_and_jacobian)
    ->Arg(100)
    ->Arg(1000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

#ifdef TOPOGRAD_WITH_CERES
struct Spring {
  double rest;
  template <class T>
  bool operator()(const T* a, const T* b, T* r) const {
    const T d[3] = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
    r[0] = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) - rest;
    return true;
  }
};

/// Evaluations inside of a solve, as Ceres' own report counts them: time a residual and Jacobian
/// evaluation.
void ceres_residuals_and_jacobian(benchmark::State& state) {
  const auto width = static_cast<std::size_t>(state.range(0));
  const auto springs = problems::springs(static_cast<std::uint32_t>(width));
  ceres::Problem problem;
  const auto add = [&](std::size_t a, std::size_t b, double rest) {
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Spring, 1, 3, 3>(new Spring{rest}),
                             nullptr, &springs->x[3 * a], &springs->x[3 * b]);
  };
  for (std::size_t k = 0; k < width * width; ++k) {
    const bool right = k % width + 1 < width, up = k / width + 1 < width;
    if (right) add(k, k + 1, 1.0);
    if (up) add(k, k + width, 1.0);
    if (right && up) add(k, k + width + 1, std::sqrt(2.0));
  }
  ceres::Solver::Options options;
  options.max_num_iterations = 3;
  options.num_threads = 2;
  options.linear_solver_type = ceres::CGNR;
  options.max_linear_solver_iterations = 1;
  options.min_linear_solver_iterations = 1;
  for (auto _ : state) {
    ceres::Solver::Summary summary;
    ceres::Solve(options, &problem, &summary);
    state.SetIterationTime(summary.jacobian_evaluation_time_in_seconds /
                           summary.num_jacobian_evaluations);
  }
}
BENCHMARK(ceres_residuals_and_jacobian)
    ->Arg(100)
    ->Arg(1000)
    ->Iterations(2)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
#endif

}  // namespace
