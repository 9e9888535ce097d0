// Whole solves on a Vulkan device: the interpreter's results, placement, traffic.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"
#include "../evaluate/inspect.hpp"

namespace topograd {
namespace {

/// Index of the device that the tests name.
std::string device_index() {
  const std::vector<runtime::vulkan::DeviceInfo> list = runtime::vulkan::devices();
  return std::to_string(runtime::vulkan::choose_device(list, {}));
}

class VulkanSolve : public test::VulkanTest {
 protected:
  void SetUp() override {
    test::VulkanTest::SetUp();
    options_.backend = Backend::vulkan;
  }
  SolverOptions options_;
};

/// A strip of triangles along y, bent in z.
problems::TriangleMesh strip(std::uint32_t length) {
  problems::TriangleMesh mesh;
  for (std::uint32_t k = 0; k < length; ++k) {
    for (const double side : {0.0, 1.0}) {
      mesh.positions.insert(mesh.positions.end(), {side, 0.7 * k, std::sin(0.4 * k)});
    }
    if (k + 1 == length) break;
    const std::uint32_t a = 2 * k;
    mesh.triangles.push_back({a, a + 1, a + 2});
    mesh.triangles.push_back({a + 1, a + 3, a + 2});
  }
  return mesh;
}

TEST_F(VulkanSolve, SameMinimumAsTheInterpreter) {
  TG_NEEDS(float64);
  const auto on_cpu = problems::arap(strip(24)), on_device = problems::arap(strip(24));
  SolverOptions options = {.backend = Backend::cpu,
                           .linear_solver = LinearSolver::pcg,
                           .max_iterations = 200,
                           .function_tolerance = 1e-10};
  const Summary expected = solve(on_cpu->problem, options);
  options.backend = Backend::vulkan;
  const Summary actual = solve(on_device->problem, options);
  EXPECT_EQ(actual.backend, "vulkan");
  EXPECT_NEAR(actual.initial_cost, expected.initial_cost, 1e-12 * expected.initial_cost);
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-6 * expected.final_cost);
  EXPECT_EQ(actual.kernels_on_cpu, 0u);
  EXPECT_GT(actual.kernels_on_device, 0u);
  EXPECT_EQ(expected.kernels_on_device, 0u);
}

/// One residual that reads all of `blocks` blocks of `width` unknowns, and a weak one for each.
struct Wide {
  Wide(std::size_t blocks, int width) : values(blocks * static_cast<std::size_t>(width), 0.5) {
    for (std::size_t k = 0; k < values.size(); ++k) values[k] += 0.1 * std::sin(double(k));
    x = problem.add_parameters(values, width);
    Value sum = literal(0.0);
    for (std::size_t k = 0; k < values.size(); ++k) {
      const Value one = x(k / std::size_t(width), int(k) % width);
      sum = sum + one * one;
      problem.add_residual(0.1 * (one - 1.0));
    }
    problem.add_residual(sum / double(values.size()) - 1.5);  // the minimum is not 0
  }
  std::vector<double> values;
  Problem problem;
  Parameters x;
};

TEST_F(VulkanSolve, ResidualsThatReadManyUnknowns) {
  TG_NEEDS(float64);
  struct Row {
    std::size_t blocks;
    int width;
    bool held;
  };
  for (const Row& row : {Row{26, 1, false}, Row{70, 1, false}, Row{40, 1, true}, Row{26, 3, false},
                         Row{30, 2, true}}) {
    SCOPED_TRACE(std::to_string(row.blocks) + " blocks of " + std::to_string(row.width) +
                 (row.held ? ", 20 constant" : ""));
    Wide on_cpu(row.blocks, row.width), on_device(row.blocks, row.width);
    for (Wide* wide : {&on_cpu, &on_device}) {
      for (std::size_t k = 0; row.held && k < 20; ++k) wide->problem.set_constant(wide->x, k);
    }
    SolverOptions options = {.backend = Backend::cpu, .linear_solver = LinearSolver::pcg};
    const Summary expected = solve(on_cpu.problem, options);
    options.backend = Backend::vulkan;
    options.deterministic = row.held;  // the kernels of the mask are used from the start
    const Summary summary = solve(on_device.problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_NEAR(summary.final_cost, expected.final_cost, 1e-6 * expected.final_cost);
  }
}

TEST_F(VulkanSolve, ResidualsThatAreTooWideForADeviceGoToTheCpu) {
  TG_NEEDS(float64);
  Wide wide(257, 1);
  try {
    solve(wide.problem, options_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    EXPECT_NE(std::string(error.what())
                  .find("expected residuals that read at most 256 unknowns, "
                        "got one that reads 257"),
              std::string::npos)
        << error.what();
  }
  options_.backend = Backend::automatic;
  const Summary summary = solve(wide.problem, options_);
  EXPECT_EQ(summary.backend, "cpu");
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
}

TEST_F(VulkanSolve, CholeskyBesideTheDevice) {
  TG_NEEDS(float64);
  const auto arap = problems::arap(strip(24)), peer = problems::arap(strip(24));
  SolverOptions options = {.linear_solver = LinearSolver::cholesky, .max_iterations = 100};
  options.backend = Backend::cpu;
  const Summary expected = solve(peer->problem, options);
  options.backend = Backend::vulkan;
  const Summary actual = solve(arap->problem, options);
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-6 * expected.final_cost);
  EXPECT_EQ(actual.linear_solver_note,
            "asked for; Jacobian and gradient are read back at each accepted point");
  EXPECT_EQ(actual.kernels_on_cpu, 0u);
}

TEST_F(VulkanSolve, FourAnchorsNeverPullTheUnknownsBack) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(40);
  SolverOptions options = options_;
  options.max_iterations = 6;
  options.preconditioner = Preconditioner::block_jacobi;  // coarse vectors are planned from x
  const Summary summary = solve(springs->problem, options);
  ASSERT_EQ(summary.topologies.size(), 2u);
  EXPECT_EQ(summary.kernels_on_cpu, 0u);
  const std::uint64_t x_bytes = 8 * summary.parameters;
  // x is read back once, at the end; a step reads back scalars.
  EXPECT_LT(summary.bytes_down, 2 * x_bytes) << summary.full_report();
  EXPECT_LE(summary.readbacks, 2u * static_cast<unsigned>(summary.num_iterations()) + 3u);
}

TEST_F(VulkanSolve, AMixedSolveCountsEachOfItsEnginesOnce) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(20);
  SolverOptions options = options_;
  options.precision = Precision::mixed;
  options.linear_solver = LinearSolver::pcg;
  options.max_iterations = 4;
  const auto device = runtime::vulkan::open();
  const runtime::vulkan::Counters before = device->counters();
  const Summary summary = solve(springs->problem, options);
  const runtime::vulkan::Counters spent = device->counters() - before;
  EXPECT_GT(summary.submissions, 0u);
  EXPECT_EQ(summary.submissions, spent.submissions);
  EXPECT_EQ(summary.readbacks, spent.readbacks);
  EXPECT_EQ(summary.bytes_up, spent.bytes_up);
  EXPECT_EQ(summary.bytes_down, spent.bytes_down);
  EXPECT_GE(summary.shaders_compiled + summary.shader_cache_hits, spent.pipelines_created);
}

TEST_F(VulkanSolve, AutomaticGoesByTheThreshold) {
  TG_NEEDS(float64);
  const struct {
    std::uint64_t threshold;
    const char* backend;
  } rows[] = {{10000, "cpu"}, {100, "vulkan"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.threshold);
    const auto springs = problems::springs(10);
    const Summary summary =
        solve(springs->problem, {.max_iterations = 3,
                                 .device = device_index(),
                                 .fallback_threshold = row.threshold,
                                 .deterministic = true});  // otherwise the interpreter starts
    EXPECT_EQ(summary.backend, row.backend) << summary.why;
    EXPECT_EQ(summary.kernels_on_cpu > 0, summary.backend == "cpu");
    EXPECT_EQ(summary.kernels_on_device > 0, summary.backend == "vulkan");
  }
}

TEST_F(VulkanSolve, EmulatedFloat64HasTheSameBits) {
  TG_NEEDS(float64);
  for (const Precision precision : {Precision::f64, Precision::mixed}) {
    SCOPED_TRACE(codegen::name(precision));
    SolverOptions options = {.backend = Backend::vulkan,
                             .precision = precision,
                             .linear_solver = LinearSolver::pcg,
                             .max_iterations = 3,
                             .device = device_index(),
                             .deterministic = true};
    options.restrictions.mask = "subgroups";  // emulated numbers have no sums of subgroups
    std::vector<double> found[2];
    std::vector<double> costs[2];
    for (const int k : {0, 1}) {
      options.float64 = k == 0 ? Float64::native : Float64::emulated;
      const auto springs = problems::springs(8);
      const Summary summary = solve(springs->problem, options);
      EXPECT_EQ(summary.backend, "vulkan") << summary.why;
      EXPECT_EQ(summary.emulated_float64, k == 1);
      for (const IterationSummary& step : summary.iterations) costs[k].push_back(step.cost);
      found[k] = springs->x;
    }
    EXPECT_GT(costs[0].size(), 2u);
    EXPECT_EQ(costs[0], costs[1]);
    EXPECT_EQ(found[0], found[1]);
  }
}

TEST_F(VulkanSolve, WithoutFloat64) {
  SolverOptions options = {
      .device = device_index(), .float64 = Float64::native, .fallback_threshold = 0};
  options.restrictions.mask = "float64";
  options.max_iterations = 2;
  const auto springs = problems::springs(10);
  const Summary summary = solve(springs->problem, options);
  EXPECT_EQ(summary.backend, "cpu");
  EXPECT_NE(summary.why.find("has no float64, which precision f64 needs"), std::string::npos)
      << summary.why;
  options.backend = Backend::vulkan;
  try {
    solve(springs->problem, options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    EXPECT_NE(std::string(error.what()).find("use float64 emulated, precision f32"),
              std::string::npos);
  }
}

TEST_F(VulkanSolve, EvaluatorAgreesWithTheInterpreter) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(20);
  Evaluator cpu(springs->problem, {.backend = Backend::cpu});
  Evaluator device(springs->problem, options_);
  EXPECT_NEAR(device.cost(), cpu.cost(), 1e-12 * cpu.cost());
  const Eigen::VectorXd g = cpu.gradient(), r = cpu.residuals();
  EXPECT_LT((device.gradient() - g).norm(), 1e-10 * g.norm());
  EXPECT_LT((device.residuals() - r).norm(), 1e-10 * r.norm());
  EXPECT_LT((device.jacobian() - cpu.jacobian()).norm(), 1e-10 * cpu.jacobian().norm());
  EXPECT_LT((device.jtj() - cpu.jtj()).norm(), 1e-10 * cpu.jtj().norm());
  EXPECT_LT((device.jtjp(g) - cpu.jtjp(g)).norm(), 1e-10 * cpu.jtjp(g).norm());
  EXPECT_LT((device.vjp(r) - g).norm(), 1e-10 * g.norm());
}

// Drivers' compilers fold x * 0 to 0 and 0 - x to -x if they know the zero.
TEST_F(VulkanSolve, ZerosOfTheStructureAreZerosLikeOthers) {
  struct Row {
    const char* what;
    Value (*f)(const Value&);
    double x;
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Row rows[] = {
      {"0 * inf", [](const Value& x) { return literal(0) * x; }, kInf},
      {"0 / 0", [](const Value& x) { return literal(0) / x; }, 0},
      {"1 / (0 - 0)", [](const Value& x) { return literal(1) / (literal(0) - x); }, 0},
      {"1 / (-0 + 0)", [](const Value& x) { return literal(1) / (x + literal(0)); }, -0.0},
      {"1 / (x * 0 * -1)",
       [](const Value& x) { return literal(1) / (x * literal(0) * literal(-1)); }, 3},
      {"1 / (0 * -x)", [](const Value& x) { return literal(1) / (literal(0) * -x); }, 3},
      {"atan2(0 - 0, -3)", [](const Value& x) { return atan2(literal(0) - x, literal(-3)); }, 0},
      {"relu(nan)", [](const Value& x) { return relu(x); }, std::nan("")},
  };
  for (const Precision precision : precisions()) {
    for (const Row& row : rows) {
      std::vector<double> x = {row.x};
      Problem problem;
      problem.add_residual(row.f(problem.add_parameters(x)[0]));
      SolverOptions options = options_;
      options.precision = precision;
      const double got = Evaluator(problem, options).residuals()[0];
      options.backend = Backend::cpu;
      const double want = Evaluator(problem, options).residuals()[0];
      EXPECT_EQ(std::isnan(got), std::isnan(want)) << row.what << ": " << got;
      if (!std::isnan(want)) {
        EXPECT_FLOAT_EQ(static_cast<float>(got), static_cast<float>(want)) << row.what;
      }
    }
  }
}

TEST_F(VulkanSolve, EvaluatorFollowsChanges) {
  TG_NEEDS(float64);
  std::vector<double> x = {3, 5};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Uniform weight = problem.add_uniform(2);
  problem.add_residual(weight * p[0]);
  problem.add_residual(p[0] * p[1] - 1.0);
  Evaluator e(problem, options_);
  EXPECT_DOUBLE_EQ(e.cost(), 116);
  problem.set(weight, 1);
  EXPECT_DOUBLE_EQ(e.cost(), 0.5 * (9 + 196));
  problem.set_constant(p, 0);
  EXPECT_EQ(e.gradient()[0], 0);
  EXPECT_DOUBLE_EQ(e.gradient()[1], 42);
  const Eigen::VectorXd ones = Eigen::Vector2d(1, 1);
  EXPECT_EQ(e.jvp(ones), Eigen::Vector2d(0, 3));
  EXPECT_EQ(e.vjp(ones), Eigen::Vector2d(0, 3));
  EXPECT_EQ(e.jtjp(ones), Eigen::Vector2d(0, 9));
  problem.add_residual(p[1] * p[1]);
  EXPECT_DOUBLE_EQ(e.residuals()[2], 25);
}

/// Options whose callback makes the device fail at the end of iteration 2.
SolverOptions failing(Backend backend) {
  SolverOptions options = {
      .backend = backend, .linear_solver = LinearSolver::pcg, .device = device_index()};
  options.fallback_threshold = 0;
  options.deterministic = true;  // the device is used from the start
  options.callback = [](const IterationSummary& i) {
    constexpr std::int32_t kDeviceLost = -4;  // VK_ERROR_DEVICE_LOST
    if (i.iteration == 2) {
      runtime::vulkan::open({.device = device_index()})
          ->inject_fault("vkQueueSubmit", 0, kDeviceLost);
    }
    return CallbackReturn::SOLVER_CONTINUE;
  };
  return options;
}

TEST_F(VulkanSolve, TheCpuTakesOverFromADeviceThatFails) {
  TG_NEEDS(float64);
  const auto arap = problems::arap(strip(24)), peer = problems::arap(strip(24));
  // To the minimum, where the cost does not depend on the path.
  const auto to_the_end = [](SolverOptions options) {
    options.function_tolerance = options.parameter_tolerance = 1e-14;
    return options;
  };
  const Summary expected = solve(peer->problem, to_the_end({.backend = Backend::cpu}));
  const Summary actual = solve(arap->problem, to_the_end(failing(Backend::automatic)));
  EXPECT_EQ(actual.termination, Termination::CONVERGENCE) << actual.message;
  EXPECT_EQ(actual.backend, "cpu");
  EXPECT_EQ(actual.why.find("cpu: the device failed: "), 0u) << actual.why;
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-10 * expected.final_cost);
  EXPECT_GT(actual.kernels_on_device, 0u);
  EXPECT_GT(actual.kernels_on_cpu, 0u);
  // The failed submission is the one after step 2: its point had not reached the host.
  EXPECT_LE(actual.num_repeated_steps, 1);
  runtime::vulkan::release_devices();
}

TEST_F(VulkanSolve, AnEvaluatorOutlivesItsDevice) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(10);
  Evaluator e(springs->problem,
              {.device = device_index(), .fallback_threshold = 0, .deterministic = true});
  EXPECT_EQ(e.backend(), "vulkan");
  const double cost = e.cost();
  runtime::vulkan::open({.device = device_index()})->inject_fault("vkQueueSubmit", 0, -4);
  EXPECT_NEAR(e.cost(), cost, 1e-12 * cost);
  EXPECT_EQ(e.backend(), "cpu");
  EXPECT_EQ(e.why().find("cpu: the device failed: "), 0u) << e.why();
  runtime::vulkan::release_devices();
}

TEST_F(VulkanSolve, AForcedDeviceThatFailsIsAnError) {
  TG_NEEDS(float64);
  const auto arap = problems::arap(strip(24));
  const double before = Evaluator(arap->problem, {.backend = Backend::cpu}).cost();
  try {
    solve(arap->problem, failing(Backend::vulkan));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::DeviceLost) << error.what();
  }
  EXPECT_LT(Evaluator(arap->problem, {.backend = Backend::cpu}).cost(),
            before);  // the last accepted point
  runtime::vulkan::release_devices();
}

TEST_F(VulkanSolve, NonfinitePlacesAndDomainPolicies) {
  for (const Precision precision : precisions()) {
    options_.precision = precision;
    test::expect_nonfinite_places(options_);
    test::expect_domain_policies(options_);
  }
}

TEST_F(VulkanSolve, CrossCheckFindsNoDifference) {
  TG_NEEDS(float64);
  const auto arap = problems::arap(strip(12));
  SolverOptions options = options_;
  options.max_iterations = 3;
  options.cross_check = kCrossCheckAll;
  const Summary summary = solve(arap->problem, options);
  EXPECT_GT(summary.cross_check.compared, 1000u);
  EXPECT_EQ(summary.cross_check.differences, 0u) << summary.full_report();
}

}  // namespace
}  // namespace topograd
