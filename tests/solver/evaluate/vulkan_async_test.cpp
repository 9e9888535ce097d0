// Asynchronous evaluations on a device.
#include "../../support/validation.hpp"
#include "async_checks.hpp"

namespace topograd {
namespace {

using VulkanAsync = test::VulkanTest;

TEST_F(VulkanAsync, Results) {
  TG_NEEDS(float64);
  test::check_async_results({.backend = Backend::vulkan});
}

TEST_F(VulkanAsync, TheCallerGoesOnWhileTheDeviceRuns) {
  TG_NEEDS(float64);
  test::check_overlap({.backend = Backend::vulkan}, 100);
}

TEST_F(VulkanAsync, EachIsOneSubmission) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(20);
  std::vector<double> x(springs->problem.parameter_count());
  springs->problem.read_x(x);
  for (const Precision precision : {Precision::f64, Precision::mixed}) {
    SCOPED_TRACE(codegen::name(precision));
    Evaluator e(springs->problem, {.backend = Backend::vulkan, .precision = precision});
    for (int k = 0; k < 2; ++k) e.gradient_async(x).get();  // records each of two buffers once
    const EvaluatorReport before = e.report();
    for (int k = 0; k < 6; ++k) e.gradient_async(x).get();
    EXPECT_EQ(e.report().submissions - before.submissions, 6u);
    EXPECT_EQ(e.report().readbacks - before.readbacks, 6u);
  }
}

}  // namespace
}  // namespace topograd
