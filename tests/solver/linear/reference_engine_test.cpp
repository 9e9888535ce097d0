// The interpreter and the reference engine take the same steps; steps where a device refuses.
#include <gtest/gtest.h>

#include "../../../runtime/cpu/engine.hpp"
#include "../../../runtime/engine/step_elimination.hpp"
#include "../../../solver/linear/engine_steps.hpp"
#include "../../../solver/solve/levenberg_marquardt.hpp"

#include <cmath>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/springs.hpp"
#include "reference_engine.hpp"

namespace topograd {
namespace {

Summary minimize(runtime::Engine& engine, const ProblemModel& model, const SolverOptions& options) {
  std::vector<double> x(model.model.scalars);
  model.problem->read_x(x);
  engine.set_point(x);
  Summary summary;
  PcgStep pcg(model.model);
  Engines engines(engine);
  Minimizer(options, model, summary).run(engines, pcg);
  return summary;
}

void expect_same_steps(const Problem& problem, int steps) {
  const ProblemModel model = make_model("test", problem);
  const SolverOptions options = {
      .max_iterations = steps, .rescale_steps = false, .linear_tolerance = 1e-10};
  test::ReferenceEngine reference(model.model);
  const auto cpu = runtime::cpu::make_cpu_engine(model.model, {});
  const Summary expected = minimize(reference, model, options);
  const Summary actual = minimize(*cpu, model, options);
  ASSERT_EQ(actual.iterations.size(), expected.iterations.size());
  for (std::size_t k = 0; k < expected.iterations.size(); ++k) {
    SCOPED_TRACE(k);
    const IterationSummary &a = actual.iterations[k], &e = expected.iterations[k];
    EXPECT_NEAR(a.cost, e.cost, 1e-9 * e.cost);
    EXPECT_NEAR(a.gradient_max_norm, e.gradient_max_norm, 1e-6 * e.gradient_max_norm);
    EXPECT_NEAR(a.step_norm, e.step_norm, 1e-6 * e.step_norm);
    EXPECT_NEAR(a.relative_decrease, e.relative_decrease,
                1e-6 * (1 + std::abs(e.relative_decrease)));
    EXPECT_NEAR(a.linear_iterations, e.linear_iterations, 1 + 0.1 * e.linear_iterations);
    EXPECT_EQ(a.step_is_successful, e.step_is_successful);
  }
}

TEST(ReferenceEngine, SameStepsOnSprings) { expect_same_steps(problems::springs(12)->problem, 8); }

TEST(ReferenceEngine, SameStepsOnArap) {
  // A bent strip of triangles.
  problems::TriangleMesh mesh;
  constexpr std::uint32_t kLength = 12;
  for (std::uint32_t k = 0; k < kLength; ++k) {
    for (const double side : {0.0, 1.0}) {
      mesh.positions.insert(mesh.positions.end(), {side, 0.7 * k, std::sin(0.4 * k)});
    }
    if (k + 1 == kLength) break;
    const std::uint32_t a = 2 * k;
    mesh.triangles.push_back({a, a + 1, a + 2});
    mesh.triangles.push_back({a + 1, a + 3, a + 2});
  }
  expect_same_steps(problems::arap(mesh)->problem, 8);
}

TEST(ReferenceEngine, SameStepsWithConstantScalars) {
  std::vector<double> x = {0.1, 0.2, 0.3, 1.4, 0.1, -0.2, 0.3, 1.1, 0.2};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 3);
  for (std::size_t k = 0; k < 3; ++k) {
    problem.add_residual(norm(p.vec3(k) - p.vec3((k + 1) % 3)) - 1.5);
    problem.add_residual(p.vec3(k) * 0.1);
  }
  problem.set_constant(p, 1);
  problem.set_constant(p, 2, 0b100);
  expect_same_steps(problem, 6);
}

/// A device that can eliminate blocks no longer.
class RefusingDevice final : public test::ReferenceEngine, public runtime::StepElimination {
 public:
  using ReferenceEngine::ReferenceEngine;
  runtime::Backend backend() const override { return runtime::Backend::vulkan; }
  runtime::Abilities abilities() override { return {.steps = this, .elimination = this}; }
  runtime::EliminationUse eliminate(std::span<const std::uint8_t>) override { return {}; }
  runtime::FactorUse factorize(bool) override { return {}; }
};

TEST(SchurStep, StaysOneWhereTheDeviceRefuses) {
  const auto bundle =
      problems::bundle({.cameras = 4, .points = 30, .observations = 100, .noise = 0.5});
  ProblemModel made = make_model("test", bundle->problem);
  RefusingDevice device(made.model);
  std::vector<double> x(made.model.scalars);
  bundle->problem.read_x(x);
  device.set_point(x);
  runtime::PointReport point = device.linearize();
  SchurStep steps(made.model, {}, {}, {});
  ++made.model.revision;  // as after a change of branches
  const runtime::StepRequest request = {.lambda = 1e-4};
  const runtime::StepReport actual = LinearizedPoint(steps, device, point).try_step(request).report;
  EXPECT_EQ(steps.kind(), LinearSolver::schur);
  EXPECT_EQ(actual.linear_iterations, 0) << "by conjugate gradients on all unknowns";
  DirectStep host(made.model, LinearSolver::schur);
  const runtime::StepReport expected =
      LinearizedPoint(host, device, point).try_step(request).report;
  EXPECT_EQ(actual.trial_cost, expected.trial_cost);
  EXPECT_EQ(actual.model_decrease, expected.model_decrease);
}

}  // namespace
}  // namespace topograd
