// Adam, AdamW and gradient descent with momentum on a Vulkan device, compared with the host.
#include <gtest/gtest.h>

#include "../../../codegen/vector/kernels.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../../support/validation.hpp"
#include "hanging.hpp"

namespace topograd::test {
namespace {

SolverOptions options_of(Method method, Backend backend) {
  return {.backend = backend,
          .method = method,
          .max_iterations = 80,
          .function_tolerance = 1e-14,
          .first_order = {.learning_rate = method == Method::sgd ? 0.05 : 0.02,
                          .weight_decay = 0.1,
                          .momentum = 0.6}};
}

class VulkanFirstOrder : public VulkanTest {};

TEST_F(VulkanFirstOrder, StepsAreThoseOfTheHostsVectors) {
  TG_NEEDS(float64);
  for (const Method method : {Method::adam, Method::adamw, Method::sgd}) {
    SCOPED_TRACE(name(method));
    Hanging on_cpu, on_device;
    const Summary expected = solve(on_cpu.problem, options_of(method, Backend::cpu));
    const Summary actual = solve(on_device.problem, options_of(method, Backend::vulkan));
    ASSERT_EQ(actual.num_iterations(), expected.num_iterations());
    EXPECT_LT(actual.final_cost, 0.9 * actual.initial_cost);
    for (std::size_t k = 0; k < expected.iterations.size(); ++k) {
      const IterationSummary &e = expected.iterations[k], &a = actual.iterations[k];
      EXPECT_NEAR(a.cost, e.cost, 1e-9) << k;
      EXPECT_NEAR(a.step_norm, e.step_norm, 1e-9) << k;
      EXPECT_NEAR(a.gradient_norm, e.gradient_norm, 1e-8) << k;
      EXPECT_NEAR(a.gradient_max_norm, e.gradient_max_norm, 1e-8) << k;
    }
    EXPECT_EQ(actual.final_cost,
              std::ranges::min(actual.iterations, {}, &IterationSummary::cost).cost);
    for (std::size_t k = 0; k < on_cpu.x.size(); ++k)
      EXPECT_NEAR(on_device.x[k], on_cpu.x[k], 1e-8) << k;
  }
}

TEST_F(VulkanFirstOrder, AStepIsOneSubmissionAndOneReadBack) {
  TG_NEEDS(float64);
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    Hanging few, many;
    SolverOptions options = options_of(Method::adam, Backend::vulkan);
    options.precision = precision;
    options.max_iterations = 10;
    const Summary short_solve = solve(few.problem, options);
    options.max_iterations = 60;
    const Summary long_solve = solve(many.problem, options);
    EXPECT_EQ(long_solve.submissions - short_solve.submissions, 50u);
    EXPECT_EQ(long_solve.readbacks - short_solve.readbacks, 50u);
    EXPECT_LE(long_solve.bytes_down - short_solve.bytes_down, 50u * 8 * codegen::kScalarCount);
    EXPECT_EQ(long_solve.kernels_on_cpu, 0u);
  }
}

TEST_F(VulkanFirstOrder, InF32ItComesAsNear) {
  TG_NEEDS(float64);
  Hanging wide, narrow;
  SolverOptions options = options_of(Method::adam, Backend::vulkan);
  const Summary expected = solve(wide.problem, options);
  options.precision = Precision::f32;
  const Summary actual = solve(narrow.problem, options);
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-3 * std::fabs(expected.initial_cost));
}

TEST_F(VulkanFirstOrder, StepsToWhereThereIsNothingAreRefused) {
  TG_NEEDS(float64);
  // The first steps jump over 0, where the logarithm ends.
  const auto run = [](Backend backend, std::vector<double>& x) {
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    for (std::size_t k = 0; k < x.size(); ++k) problem.add_energy(p[k] - literal(0.5) * log(p[k]));
    SolverOptions options = options_of(Method::adam, backend);
    options.first_order.learning_rate = 3;
    return solve(problem, options);
  };
  std::vector<double> on_cpu, on_device;
  for (int k = 0; k < 40; ++k) on_cpu.push_back(1.5 + 0.01 * k);
  on_device = on_cpu;
  const Summary expected = run(Backend::cpu, on_cpu), actual = run(Backend::vulkan, on_device);
  EXPECT_GT(actual.num_nonfinite_steps, 0);
  EXPECT_EQ(actual.num_nonfinite_steps, expected.num_nonfinite_steps);
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-8);
  for (std::size_t k = 0; k < on_cpu.size(); ++k) EXPECT_NEAR(on_device[k], on_cpu[k], 1e-7);
}

TEST_F(VulkanFirstOrder, SolversGoOnAfterChanges) {
  TG_NEEDS(float64);
  Hanging kept;
  Solver solver(kept.problem, options_of(Method::adam, Backend::vulkan));
  solver.solve();
  for (const int change : {0, 1}) {
    SCOPED_TRACE(change);
    Hanging fresh;
    if (change == 1) {
      kept.problem.set_constant(kept.points, 7);
      fresh.problem.set_constant(fresh.points, 7);
    }
    fresh.x = kept.x;
    const Summary expected = solve(fresh.problem, options_of(Method::adam, Backend::vulkan));
    const Summary actual = solver.solve();
    EXPECT_EQ(actual.final_cost, expected.final_cost);
    EXPECT_EQ(kept.x, fresh.x);
  }
}

// Steps that leave the domain of a square root end a strict solve, by whichever method.
TEST_F(VulkanFirstOrder, DomainsAreCheckedAtEachTrial) {
  TG_NEEDS(float64);
  for (const Method method : {Method::adam, Method::lbfgs}) {
    Hanging rope;
    std::vector<double> y(1, 0.001);
    const Parameters p = rope.problem.add_parameters(y, 1);
    rope.problem.add_energy(p.scalar(0) + sqrt(p.scalar(0)));
    SolverOptions options = options_of(method, Backend::vulkan);
    options.domain = DomainPolicy::strict;
    try {
      solve(rope.problem, options);
      ADD_FAILURE() << name(method);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("domain error at a trial"), std::string::npos)
          << name(method) << ": " << error.what();
    }
  }
}

TEST_F(VulkanFirstOrder, CallbacksSeePointsWhereTheyAskForThem) {
  TG_NEEDS(float64);
  Hanging shown, hidden;
  SolverOptions options = options_of(Method::adam, Backend::vulkan);
  options.max_iterations = 5;
  const Summary expected = solve(hidden.problem, options);
  double last = shown.x[4];
  int changes = 0;
  options.update_state_every_iteration = true;
  options.callback = [&](const IterationSummary&) {
    changes += shown.x[4] != last ? 1 : 0;
    last = shown.x[4];
    return CallbackReturn::SOLVER_CONTINUE;
  };
  const Summary actual = solve(shown.problem, options);
  EXPECT_GT(changes, 2);
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-9);
}

}  // namespace
}  // namespace topograd::test
