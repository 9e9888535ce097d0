// The Vulkan engine against the scalar evaluator: every strategy, precision, mask and chunk size.
#include "../../support/environment.hpp"
#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"
#include "../engines/second_order_checks.hpp"
#include "../engines/step_checks.hpp"
#include "strategies.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/engine.hpp"
#include "../../../runtime/order/order.hpp"
#include "../../../runtime/vulkan/engine.hpp"

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <cmath>
#include <cstdlib>
#include <random>

namespace topograd::test {
namespace {

using codegen::Accumulation;
using codegen::Precision;
using runtime::Engine;
using runtime::EngineOptions;

struct Case {
  const char* name;
  OwnedModel (*make)(std::uint32_t);
  std::uint32_t size;
};

OwnedModel springs(std::uint32_t n) { return springs_model(n, 3 * n); }

/// d u times the distance of two points, squared.
constexpr const char* kWeightedSpring = R"(program parameters=6 data=1 uniforms=1 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = parameter 4
  %5 = parameter 5
  %6 = data 0
  %7 = uniform 0
  %8 = sub %0, %3
  %9 = sub %1, %4
  %10 = sub %2, %5
  %11 = square %8
  %12 = square %9
  %13 = square %10
  %14 = add %11, %12
  %15 = add %14, %13
  %16 = mul %6, %7
  %17 = mul %16, %15
  return %17
}
)";

const Case kCases[] = {{"springs of one workgroup", springs, 12},
                       {"springs", springs, 1000},
                       {"a block that all share", shared_model, 2000},
                       {"one shared instance", shared_model, 1},
                       {"coordinates that change", chain_model, 1024}};

class VulkanEngineTest : public VulkanTest {
 protected:
  static std::unique_ptr<Engine> open(const OwnedModel& m, const EngineOptions& options = {}) {
    std::unique_ptr<Engine> engine = runtime::vulkan::make_vulkan_engine(m.model, options);
    engine->set_point(m.x);
    return engine;
  }
  static std::vector<double> gradient(Engine& engine, const OwnedModel& m) {
    std::vector<double> g(m.x.size());
    engine.gradient(g);
    return g;
  }
  static std::vector<double> direction(const OwnedModel& m) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<double> p(m.x.size());
    for (double& v : p) v = static_cast<float>(uniform(random));
    return p;
  }
};

TEST_F(VulkanEngineTest, GradientOnEveryStrategy) {
  for (const Precision precision : precisions()) {
    for (const Case& c : kCases) {
      OwnedModel m = c.make(c.size);
      if (precision == Precision::f32) round_to_float(m);
      const double bound = precision == Precision::f64 ? 1e-13 : 1e-5;
      const std::vector<double> want = reference_gradient(m);
      for (const Accumulation strategy : kStrategies) {
        SCOPED_TRACE(std::string(c.name) + ", " + std::string(name(precision)) + ", " +
                     std::string(name(strategy)));
        const auto engine = open(m, {.precision = precision, .accumulation = strategy});
        EXPECT_LE(relative_difference(gradient(*engine, m), want), bound)
            << engine->abilities().plans->accumulation();
      }
    }
  }
}

TEST_F(VulkanEngineTest, CostAndRowsInTheProblemsOrder) {
  TG_NEEDS(float64);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    OwnedModel m = c.make(c.size);
    const auto engine = open(m);
    EXPECT_NEAR(engine->cost(), reference_cost(m), 1e-13 * reference_cost(m));
    std::vector<double> rows(m.model.rows);
    engine->residuals(rows);
    double sum = 0;
    for (double r : rows) sum += r * r / 2;
    EXPECT_NEAR(sum, reference_cost(m), 1e-12 * sum);
    if (m.model.rows > 3000) continue;
    const auto jacobian = reference_jacobian(m);
    const std::vector<double> p = direction(m);
    std::vector<double> image(m.model.rows), want(m.model.rows, 0.0);
    engine->jvp(p, image);
    for (std::size_t r = 0; r < want.size(); ++r) {
      for (std::size_t k = 0; k < p.size(); ++k) want[r] += jacobian[r][k] * p[k];
    }
    EXPECT_LE(relative_difference(image, want), 1e-13);
    std::vector<double> back(p.size()), want_back(p.size(), 0.0), product(p.size());
    engine->vjp(image, back);
    for (std::size_t r = 0; r < want.size(); ++r) {
      for (std::size_t k = 0; k < p.size(); ++k) want_back[k] += jacobian[r][k] * want[r];
    }
    EXPECT_LE(relative_difference(back, want_back), 1e-12);
    engine->jtjp(p, product);
    EXPECT_LE(relative_difference(product, want_back), 1e-12);
  }
}

TEST_F(VulkanEngineTest, JacobianOfEachTerm) {
  TG_NEEDS(float64);
  const OwnedModel m = shared_model(300);
  const auto engine = open(m);
  const auto want = reference_jacobian(m);
  std::vector<double> values(300 * 2 * 5);
  engine->jacobian(0, values);
  for (std::size_t at = 0; at < values.size(); ++at) {
    const std::size_t i = at / 10, row = at % 10 / 5;
    const auto slot = static_cast<std::uint32_t>(at % 5);
    const double expected = want[2 * i + row][m.batches[0]->index(i, slot)];
    EXPECT_NEAR(values[at], expected, 1e-14 * std::max(1.0, std::abs(expected))) << at;
  }
}

TEST_F(VulkanEngineTest, ChunksAndDispatchLimitsGiveTheSameGradient) {
  TG_NEEDS(float64);
  struct Row {
    const char* name;
    EngineOptions options;
  };
  const OwnedModel m = springs_model(3000, 9000);
  const std::vector<double> want = reference_gradient(m);
  const std::uint64_t x_bytes = m.x.size() * sizeof(double);
  for (Accumulation strategy : kStrategies) {
    for (const Row& row : {Row{"small ranges", {.max_storage_buffer_range = x_bytes}},
                           Row{"small dispatches", {.max_instances_per_dispatch = 1000}},
                           Row{"dispatches below a workgroup", {.max_instances_per_dispatch = 50}},
                           Row{"small workgroups", {.max_workgroup_invocations = 32}}}) {
      SCOPED_TRACE(std::string(row.name) + ", " + std::string(name(strategy)));
      EngineOptions options = row.options;
      options.accumulation = strategy;
      const auto engine = open(m, options);
      EXPECT_LE(relative_difference(gradient(*engine, m), want), 1e-13);
      EXPECT_NEAR(engine->cost(), reference_cost(m), 1e-12 * reference_cost(m));
    }
  }
}

TEST_F(VulkanEngineTest, ADispatchHoldsNoMoreInstancesThanAllowed) {
  TG_NEEDS(float64);
  const OwnedModel m = springs_model(3000, 9000);
  std::vector<double> rows(m.model.rows);
  const auto dispatches = [&](std::uint64_t most) {
    const auto engine = open(m, {.max_instances_per_dispatch = most});
    engine->residuals(rows);
    return engine->stats().kernels_on_device;
  };
  EXPECT_EQ(dispatches(0), 2u);          // springs and anchors
  EXPECT_EQ(dispatches(1024), 9u + 1u);  // ceil(9000 / 1024), and the anchors
}

TEST_F(VulkanEngineTest, MaskedFeaturesHaveAReplacement) {
  struct Row {
    const char* mask;
    Accumulation strategy;
    const char* used;
    Precision precision = Precision::f64;
  };
  const ScopedEnvironment none("TOPOGRAD_MASK", "");
  OwnedModel m = springs_model(500, 1500);
  round_to_float(m);
  const std::vector<double> want = reference_gradient(m);
  constexpr Accumulation kRecompute = Accumulation::gather_recompute;
  for (const Row& row :
       {Row{"int64_atomics", Accumulation::atomic_cas,
            "gather_recompute (no 64-bit integer atomics)"},
        Row{"float64_atomics", Accumulation::atomic_float, "gather_recompute (no float64 atomics)"},
        Row{"float32_atomics", Accumulation::atomic_float, "gather_recompute (no float32 atomics)",
            Precision::f32},
        Row{"int64_atomics,float64", Accumulation::atomic_cas, "atomic_cas", Precision::f32},
        Row{"subgroups", kRecompute, "gather_recompute"},
        Row{"large_workgroups", kRecompute, "gather_recompute"},
        Row{"shared_32k", kRecompute, "gather_recompute"},
        Row{"large_buffers", kRecompute, "gather_recompute"},
        Row{"timestamps", kRecompute, "gather_recompute"},
        Row{"mapped_memory", kRecompute, "gather_recompute"}}) {
    SCOPED_TRACE(row.mask);
    const auto engine =
        open(m, {.precision = row.precision, .accumulation = row.strategy, .mask = row.mask});
    const bool wide = row.precision == Precision::f64;
    EXPECT_EQ(engine->abilities().plans->accumulation(), row.used);
    EXPECT_LE(relative_difference(gradient(*engine, m), want), wide ? 1e-13 : 1e-5);
    EXPECT_NEAR(engine->cost(), reference_cost(m), (wide ? 1e-12 : 1e-5) * reference_cost(m));
  }
  {
    const ScopedEnvironment automatic("TOPOGRAD_FLOAT64", {});
    const auto emulated = open(m, {.mask = "float64"});
    EXPECT_EQ(gradient(*emulated, m), gradient(*open(m), m)) << "f64 by integers";
    EXPECT_NEAR(emulated->cost(), reference_cost(m), 1e-12 * reference_cost(m));
  }
  const ScopedEnvironment native("TOPOGRAD_FLOAT64", "native");
  try {
    open(m, {.mask = "float64"});
    ADD_FAILURE() << "f64 without float64 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    EXPECT_NE(std::string(error.what()).find("ask for f32"), std::string::npos) << error.what();
  }
  EXPECT_LE(relative_difference(
                gradient(*open(m, {.precision = Precision::f32, .mask = "float64"}), m), want),
            1e-5);
}

TEST_F(VulkanEngineTest, GatherGivesTheSameBitsEveryTime) {
  TG_NEEDS(float64);
  const OwnedModel m = shared_model(5000);
  const std::vector<double> first = gradient(*open(m), m);
  for (int k = 0; k < 3; ++k) {
    const auto engine = open(m);
    EXPECT_EQ(gradient(*engine, m), first);
    EXPECT_EQ(gradient(*engine, m), first);
  }
}

TEST_F(VulkanEngineTest, OneTopologyIsOneDispatch) {
  TG_NEEDS(float64);
  OwnedModel m = chain_model(1004);
  m.model.terms[0].batch = m.batches[0].get();
  while (m.batches[0]->size() > 1000) m.batches[0]->remove(m.batches[0]->size() - 1);
  m.model.rows = 1000;
  const auto engine = open(m);
  const std::uint64_t before = engine->stats().kernels_on_device;
  std::vector<double> rows(1000);
  engine->residuals(rows);
  EXPECT_EQ(engine->stats().kernels_on_device - before, 1u);
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(rows[i], m.x[i] * m.x[i + 1] - m.batches[0]->data(i, 0)) << i;
  }
}

TEST_F(VulkanEngineTest, FollowsChangesOfDataUniformsAndRows) {
  TG_NEEDS(float64);
  OwnedModel m = shared_model(400);
  const auto engine = open(m);
  gradient(*engine, m);
  m.batches[0]->set_data(17, 0, 3.0);
  m.model.uniforms[1] = -0.75;
  engine->refresh(m.model);
  EXPECT_LE(relative_difference(gradient(*engine, m), reference_gradient(m)), 1e-13);
  m.add_row(0, {3, 7, 8, 1200, 1201, 0}, {0.5});
  engine->refresh(m.model);
  engine->set_point(m.x);
  EXPECT_LE(relative_difference(gradient(*engine, m), reference_gradient(m)), 1e-13);
}

TEST_F(VulkanEngineTest, AReorderedModelAnswersInTheCallersOrder) {
  TG_NEEDS(float64);
  OwnedModel m = springs_model(30000, 90000);  // random edges: completely unsorted
  const runtime::ModelOrder order = runtime::find_order(m.model);
  m.model.constant.assign(m.x.size(), 0);
  for (std::size_t k = 0; k < 300; ++k) m.model.constant[7 * k] = 1;
  const auto engine = open(m);
  std::vector<double> back(m.x.size()), want = reference_gradient(m), rows(m.model.rows);
  engine->point(back);
  EXPECT_EQ(back, m.x);
  EXPECT_LE(relative_difference(gradient(*engine, m), want), 1e-13);
  engine->residuals(rows);
  double cost = 0;
  for (double r : rows) cost += r * r / 2;
  EXPECT_NEAR(cost, reference_cost(m), 1e-12 * cost);
  m.batches[0]->set_data(4711, 0, 2.5);
  engine->refresh(m.model);
  want = reference_gradient(m);
  EXPECT_LE(relative_difference(gradient(*engine, m), want), 1e-13);
  runtime::damped_steps(*engine).linearize();
  runtime::damped_steps(*engine).try_step({.lambda = 1});
  runtime::damped_steps(*engine).accept();
  engine->point(back);
  for (std::size_t k = 0; k < m.x.size(); ++k) {
    EXPECT_EQ(back[k] == m.x[k], m.model.constant[k] == 1 || want[k] == 0) << k;
  }
  std::vector<double> values(std::size_t{90000} * 6), seeds(m.model.rows, 1.0), sums(m.x.size()),
      product(m.x.size(), 0.0);
  engine->set_point(m.x);
  engine->jacobian(0, values);
  engine->vjp(seeds, sums);
  for (std::size_t i = 0; i < 90000; ++i) {
    for (std::uint32_t k = 0; k < 6; ++k) product[m.batches[0]->index(i, k)] += values[6 * i + k];
  }
  for (std::size_t i = 0; i < m.batches[1]->size(); ++i) {
    for (std::uint32_t k = 0; k < 3; ++k) product[m.batches[1]->index(i, k)] += 1;
  }
  EXPECT_LE(relative_difference(sums, product), 1e-12);
}

/// δ of the damped normal equations by a dense factorisation, with Ceres' damping.
Eigen::VectorXd dense_step(const OwnedModel& m, const runtime::StepRequest& request) {
  const auto rows = reference_jacobian(m);
  Eigen::MatrixXd jacobian(rows.size(), m.x.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t k = 0; k < m.x.size(); ++k) jacobian(r, k) = rows[r][k];
  }
  const std::vector<double> g = reference_gradient(m);
  Eigen::VectorXd gradient = Eigen::Map<const Eigen::VectorXd>(g.data(), g.size());
  for (std::size_t k = 0; k < m.model.constant.size(); ++k) {
    if (m.model.constant[k] == 0) continue;
    jacobian.col(k).setZero();
    gradient(k) = 0;
  }
  Eigen::MatrixXd normal = jacobian.transpose() * jacobian;
  for (Eigen::Index k = 0; k < normal.rows(); ++k) {
    const double s = request.jacobi_scaling ? 1 / (1 + std::sqrt(normal(k, k))) : 1;
    const double scaled =
        std::clamp(s * s * normal(k, k), request.min_diagonal, request.max_diagonal);
    normal(k, k) += request.lambda * scaled / (s * s);
  }
  return normal.ldlt().solve(-gradient);
}

TEST_F(VulkanEngineTest, StepsSolveTheDampedNormalEquations) {
  TG_NEEDS(float64);
  for (const Case& c : {Case{"springs", springs, 60}, Case{"shared", shared_model, 40},
                        Case{"chain", chain_model, 64}}) {
    for (const bool masked : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (masked ? ", some constant" : ""));
      OwnedModel m = c.make(c.size);
      if (masked) {
        m.model.constant.assign(m.x.size(), 0);
        m.model.constant[1] = m.model.constant[9] = m.model.constant[10] = m.model.constant[11] = 1;
      }
      const auto engine = open(m);
      const runtime::PointReport point = runtime::damped_steps(*engine).linearize();
      EXPECT_NEAR(point.cost, reference_cost(m), 1e-12 * point.cost);
      const runtime::StepRequest request{.lambda = 1e-2, .linear_tolerance = 1e-12};
      const runtime::StepReport report = runtime::damped_steps(*engine).try_step(request);
      const Eigen::VectorXd want = dense_step(m, request);
      EXPECT_NEAR(report.step_norm, want.norm(), 1e-8 * want.norm());
      EXPECT_GT(report.linear_iterations, 0);
      runtime::damped_steps(*engine).accept();
      std::vector<double> moved(m.x.size());
      engine->point(moved);
      for (std::size_t k = 0; k < moved.size(); ++k) {
        EXPECT_NEAR(moved[k] - m.x[k], want[k], 1e-8 * want.norm()) << k;
      }
      const OwnedModel& at = m;
      m.x = moved;
      EXPECT_NEAR(report.trial_cost, reference_cost(at), 1e-10 * std::max(1e-3, report.trial_cost));
    }
  }
}

TEST_F(VulkanEngineTest, ColumnScalingIsThatOfTheFirstStep) {
  TG_NEEDS(float64);
  check_scaling_stays(
      [](const runtime::Model& model) { return runtime::vulkan::make_vulkan_engine(model, {}); });
}

TEST_F(VulkanEngineTest, SmallTermsThatRideInAProductFollowTheirData) {
  TG_NEEDS(float64);
  OwnedModel m = springs_model(100, 300);
  m.add_term("weighted", kWeightedSpring);
  m.model.uniforms = {1.5};
  for (std::uint32_t k = 0; k < 4; ++k) {
    const std::uint32_t a = 30 * k, b = 3 * (97 - 5 * k);
    m.add_row(2, {a, a + 1, a + 2, b, b + 1, b + 2, 0}, {0.5 + k});
  }
  const auto engine = open(m);
  const runtime::StepRequest request{.lambda = 1e-2, .linear_tolerance = 1e-12};
  for (const double weight : {1.0, 7.0}) {
    m.batches[2]->set_data(1, 0, weight);
    engine->refresh(m.model);
    runtime::damped_steps(*engine).linearize();
    runtime::damped_steps(*engine).try_step(request);
    const Eigen::VectorXd want = dense_step(m, request);
    std::vector<double> trial(m.x.size());
    runtime::damped_steps(*engine).trial_point(trial);
    for (std::size_t k = 0; k < trial.size(); ++k) {
      EXPECT_NEAR(trial[k] - m.x[k], want[k], 1e-8 * want.norm()) << k << ", weight " << weight;
    }
  }
}

TEST_F(VulkanEngineTest, PredictedDecreaseIsTheLinearModels) {
  TG_NEEDS(float64);
  const OwnedModel m = springs_model(50, 150);
  const auto engine = open(m);
  runtime::damped_steps(*engine).linearize();
  const runtime::StepRequest request{.lambda = 0.1, .linear_tolerance = 1e-3};
  const runtime::StepReport report = runtime::damped_steps(*engine).try_step(request);
  std::vector<double> moved(m.x.size()), delta(m.x.size());
  runtime::damped_steps(*engine).accept();
  engine->point(moved);
  for (std::size_t k = 0; k < delta.size(); ++k) delta[k] = moved[k] - m.x[k];
  const auto rows = reference_jacobian(m);
  const auto g = reference_gradient(m);
  double decrease = 0;
  for (std::size_t k = 0; k < delta.size(); ++k) decrease -= g[k] * delta[k];
  for (const auto& row : rows) {
    double image = 0;
    for (std::size_t k = 0; k < delta.size(); ++k) image += row[k] * delta[k];
    decrease -= image * image / 2;
  }
  EXPECT_NEAR(report.model_decrease, decrease, 1e-9 * decrease);
}

TEST_F(VulkanEngineTest, SecondDerivativesOfResidualsAndEnergies) {
  for (const Precision precision : precisions()) {
    OwnedModel m = energy_model(700, 2000);
    if (precision == Precision::f32) round_to_float(m);
    for (const Accumulation strategy : kStrategies) {
      SCOPED_TRACE(std::string(name(precision)) + ", " + std::string(name(strategy)));
      const auto engine = open(m, {.precision = precision, .accumulation = strategy});
      check_second_order(*engine, m, precision == Precision::f64 ? 1e-12 : 2e-5);
    }
  }
}

TEST_F(VulkanEngineTest, HessiansInPiecesAndInTheProblemsOrder) {
  TG_NEEDS(float64);
  OwnedModel m = energy_model(3000, 9000);
  const auto cpu = runtime::cpu::make_cpu_engine(m.model, {});
  cpu->set_point(m.x);
  const auto want = hessians(*cpu, m, true);
  const auto engine = open(
      m, {.max_instances_per_dispatch = 1000, .max_storage_buffer_range = std::uint64_t{1} << 20});
  const auto got = hessians(*engine, m, true);
  for (std::size_t t = 0; t < want.size(); ++t)
    EXPECT_LE(relative_difference(got[t], want[t]), 1e-12) << m.model.terms[t].name;
}

TEST_F(VulkanEngineTest, TimesEveryKind) {
  TG_NEEDS(float64);
  const OwnedModel m = springs_model(200, 600);
  const auto engine = open(m);
  using runtime::Pass;
  for (const Pass pass :
       {Pass::residual, Pass::cost, Pass::gradient, Pass::jacobian, Pass::jtjp, Pass::blocks,
        Pass::hvp, Pass::hessian, Pass::cost_gradient, Pass::values}) {
    const runtime::Timing timing = engine->abilities().measurements->time(pass, 1, 3);
    EXPECT_GT(timing.device_us, 0) << name(pass);
    EXPECT_GE(timing.wall_us, timing.device_us) << name(pass);
  }
  EXPECT_GT(engine->abilities().measurements->time_step(100, 1e-3, 2).device_us, 0);
  EXPECT_LE(relative_difference(gradient(*engine, m), reference_gradient(m)), 1e-13);
}

TEST_F(VulkanEngineTest, SaysWhatItHoldsAndHowFastTheDeviceCopies) {
  TG_NEEDS(float64);
  const OwnedModel m = springs_model(2000, 6000);
  const auto engine = open(m);
  gradient(*engine, m);
  EXPECT_GT(engine->abilities().measurements->copy_rate(),
            1e8);  // returns memory of earlier tests
  const std::uint64_t before = engine->stats().device_bytes;
  EXPECT_GT(engine->abilities().measurements->copy_rate(), 1e8);
  EXPECT_EQ(engine->stats().device_bytes, before) << "the copies' buffers are still there";
  std::uint64_t device = 0, x = 0;
  for (const runtime::MemoryUse& use : engine->abilities().measurements->memory()) {
    device += use.device;
    if (use.use == "x") x = use.device;
  }
  EXPECT_EQ(device, before);
  EXPECT_EQ(x, 8 * m.model.scalars);
}

}  // namespace
}  // namespace topograd::test
