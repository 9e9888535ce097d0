// Results that a device must compute before it is chosen, and the treatment of a wrong device.
#include <gtest/gtest.h>

#include "../../../codegen/spirv/shader_compiler.hpp"
#include "../../../runtime/device/check/doctor.hpp"
#include "../../../runtime/device/check/self_check.hpp"
#include "../../../runtime/hybrid/executor.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/solve.hpp"
#include "../../../tools/check/programs/ops.hpp"

#include <chrono>
#include <cmath>

#include "../../support/environment.hpp"
#include "../../support/paths.hpp"
#include "../../support/validation.hpp"

namespace topograd::test {
namespace {

namespace vk = runtime::vulkan;

class SelfCheck : public VulkanTest {
 protected:
  // Ignores results of other tests, on disk and in the process.
  void SetUp() override {
    VulkanTest::SetUp();
    if (!IsSkipped()) vk::remember_self_check({}, {});
  }
  void TearDown() override {
    if (!IsSkipped()) vk::remember_self_check({}, {});
  }

  TemporaryDir folder_;
  ScopedEnvironment cache_{"TOPOGRAD_CACHE_DIR", folder_.path().string()};
};

TEST_F(SelfCheck, EveryFunctionOfShadersIsInIt) {
  std::string missing;
  for (const ir::OpInfo& op : ir::kOps) {
    if (op.function.empty() || op.ulp_f32 == 0 || op.op == ir::Op::Sqrt) continue;
    bool found = false;
    for (const runtime::Composition& composition : vk::self_check_compositions())
      for (const ir::Op one : composition) found = found || one == op.op;
    if (!found) missing += std::string(op.name) + " ";
  }
  EXPECT_EQ(missing, "rsqrt ");  // a square root and a division
}

TEST_F(SelfCheck, RunsOnceForADevice) {
  const vk::DeviceOptions options{.cache_dir = (folder_.path() / "own").string()};
  const vk::SelfCheck first = vk::self_check(options);
  EXPECT_TRUE(first.passed()) << first.problem;
  EXPECT_GT(first.compared, 1000u);
  // New options: the result on disk is used.
  vk::DeviceOptions other = options;
  other.timeout_seconds = 123;
  const auto begin = std::chrono::steady_clock::now();
  const vk::SelfCheck second = vk::self_check(other);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(second.compared, 0u);
  EXPECT_TRUE(second.passed());
  RecordProperty("remembered_us", static_cast<int>(took.count() * 1e6));
}

TEST_F(SelfCheck, ADeviceThatFailedIsNotChosen) {
  const std::string name = std::to_string(device_->info().index);
  constexpr const char* kProblem = "f32, value of atan(tan(a)) at a = 0.84: got 1e-38";
  vk::remember_self_check({.device = name}, {.problem = kProblem});

  std::vector<double> x = {2};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0] * p[0] - 2);
  SolverOptions options{.backend = Backend::automatic, .precision = Precision::f32};
  options.device = name;
  options.fallback_threshold = 0;
  const Summary automatic = solve(problem, options);
  EXPECT_EQ(automatic.backend, "cpu");
  EXPECT_NE(automatic.why.find("computes wrongly (" + std::string(kProblem)), std::string::npos)
      << automatic.why;
  EXPECT_NEAR(x[0], std::sqrt(2.0), 1e-5);
  options.backend = Backend::vulkan;
  EXPECT_EQ(solve(problem, options).backend, "vulkan");

  runtime::hybrid::Executor executor;
  EXPECT_EQ(add_devices(executor, options), 0u);
  const auto capabilities = executor.capabilities();
  ASSERT_EQ(capabilities.size(), 2u);
  EXPECT_FALSE(capabilities[1].available);
  EXPECT_NE(capabilities[1].problem.find(kProblem), std::string::npos) << capabilities[1].problem;
}

TEST_F(SelfCheck, TheDoctorRunsIt) {
  const auto square = codegen::compile(
      {.name = "square",
       .glsl = "#version 450\nlayout(local_size_x = 64) in;\n"
               "layout(push_constant) uniform Push { uint n; };\n"
               "layout(std430, set = 0, binding = 0) buffer Values { float v[]; };\n"
               "void main() {\n  const uint i = gl_GlobalInvocationID.x;\n"
               "  if (i < n) v[i] = v[i] * v[i];\n}\n",
       .includes = {}});
  const vk::DoctorReport report = vk::doctor({}, square);
  ASSERT_FALSE(report.checks.empty());
  const vk::DoctorCheck& last = report.checks.back();
  EXPECT_EQ(last.name, "functions");
  EXPECT_TRUE(last.ok) << last.detail;
  EXPECT_NE(last.detail.find("agree with the CPU"), std::string::npos) << last.detail;
}

// A sample of all pairs, another one for each mask and width of the test runs.
TEST_F(SelfCheck, PairsHoldTheirBounds) {
  check::PairsOptions options;
  options.backend = Backend::vulkan;
  options.every = 177;
  options.triples = 4;
  options.seed = tested_features().float64 ? 11 : 29;
  options.seed += device_->limits().subgroup_size;
  const check::PairsReport report = check::check_pairs(options);
  EXPECT_GE(report.pairs, 19u);
  EXPECT_GT(report.compared, 3000u);
  for (const check::PairFailure& f : report.failures)
    ADD_FAILURE() << name(f.precision) << ": " << f.number.message();
}

}  // namespace
}  // namespace topograd::test
