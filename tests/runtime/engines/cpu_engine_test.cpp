// The CPU engine against sums by the scalar evaluator, dense solves and itself on other numbers of
// threads.
#include <gtest/gtest.h>
#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/engine.hpp"
#include "../../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../../runtime/cpu/linear/conjugate_gradients.hpp"
#include "../../../runtime/engine/damped_steps.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine_models.hpp"
#include "second_order_checks.hpp"
#include "value_checks.hpp"

namespace topograd::test {
namespace {

using codegen::Precision;
using runtime::Engine;
using runtime::EngineOptions;
using runtime::StepRequest;
using Numbers = std::vector<double>;

OwnedModel springs(std::uint32_t n) { return springs_model(n, 3 * n); }

constexpr const char* kProduct = R"(program parameters=2 data=1 uniforms=1 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = data 0
  %3 = uniform 0
  %4 = sin %0
  %5 = mul %4, %1
  %6 = sub %5, %2
  %7 = mul %6, %3
  return %7, %2, %1
})";

// Arrays of widths 1, 20 and 2; one topology reads all of them, in one column; some instances read
// two scalars of one block, or the same scalar twice; two uniforms alternate.
OwnedModel mixed_model(std::uint32_t blocks) {
  OwnedModel m;
  std::minstd_rand random(17);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  const std::uint64_t n = blocks;
  m.model.arrays = {{0, 1, n}, {n, 20, n}, {21 * n, 2, n}};
  m.model.scalars = 23 * n;
  m.model.uniforms = {0.5, 2};
  for (std::uint64_t k = 0; k < m.model.scalars; ++k) m.x.push_back(uniform(random));
  m.add_term("product", kProduct);
  const auto scalars = static_cast<std::uint32_t>(m.model.scalars);
  for (std::uint32_t k = 0; k < scalars; ++k) {
    m.add_row(0, {k, (k + 1) % scalars, k % 2}, {uniform(random)});
    m.add_row(0, {k, static_cast<std::uint32_t>(random() % scalars), k % 2}, {uniform(random)});
    if (k % 7 == 0) m.add_row(0, {k, k, 1}, {uniform(random)});
  }
  return m;
}

constexpr const char* kSeen = R"(program parameters=7 data=1 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = parameter 4
  %5 = parameter 5
  %6 = parameter 6
  %7 = data 0
  %8 = mul %0, %5
  %9 = sin %1
  %10 = mul %9, %6
  %11 = add %8, %10
  %12 = sub %11, %7
  %13 = mul %2, %3
  %14 = mul %13, %6
  %15 = sub %14, %4
  %16 = mul %7, %5
  %17 = add %15, %16
  return %12, %17
})";

// Points of width 2, each seen by eight of eleven cameras of width 5: few blocks are shared by very
// many instances, the others by neighbouring instances.
OwnedModel cameras_model(std::uint32_t points) {
  OwnedModel m;
  std::minstd_rand random(3);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  constexpr std::uint32_t kCameras = 11, kSeenBy = 8;
  m.model.arrays = {{0, 5, kCameras}, {5 * kCameras, 2, points}};
  m.model.scalars = 5 * kCameras + 2 * points;
  for (std::uint64_t k = 0; k < m.model.scalars; ++k) m.x.push_back(uniform(random));
  m.add_term("seen", kSeen);
  for (std::uint32_t i = 0; i < kSeenBy * points; ++i) {
    const std::uint32_t c = 5 * (i * 3 % kCameras), p = 5 * kCameras + 2 * (i / kSeenBy);
    m.add_row(0, {c, c + 1, c + 2, c + 3, c + 4, p, p + 1}, {uniform(random)});
  }
  return m;
}

struct Case {
  const char* name;
  OwnedModel (*make)(std::uint32_t);
  std::uint32_t size;
};
const Case kCases[] = {{"three springs", springs, 2},
                       {"springs of one tile", springs, 85},
                       {"springs", springs, 1000},
                       {"a block that all share", shared_model, 12000},
                       {"one shared instance", shared_model, 1},
                       {"a tile and one", shared_model, 257},
                       {"coordinates that change", chain_model, 1024},
                       {"arrays of different widths", mixed_model, 12},
                       {"cameras", cameras_model, 100}};

std::unique_ptr<Engine> open(const OwnedModel& m, const EngineOptions& options = {}) {
  std::unique_ptr<Engine> engine = runtime::cpu::make_cpu_engine(m.model, options);
  engine->set_point(m.x);
  return engine;
}

using runtime::Columns;
using runtime::Rows;

enum class Made : std::uint8_t { right, wrong, refusing };

/// A device in f64 that computes as the interpreter does, or with an error in one number, or takes
/// no kernel.
class MadeDevice final : public runtime::RowRunner {
 public:
  explicit MadeDevice(Made made) : made_(made) {}
  runtime::Backend backend() const override { return runtime::Backend::vulkan; }
  std::string device() const override { return "made"; }
  Precision precision() const override { return Precision::f64; }
  Columns run(const ir::Program& program, const Rows& rows) override {
    Columns out = inner_->run(program, rows);
    if (made_ == Made::wrong) out.back().back() = std::nextafter(out.back().back(), 1e300);
    return out;
  }
  std::unique_ptr<runtime::RowKernel> prepare(const ir::Program& program,
                                              runtime::RowIndices indices) override {
    if (made_ == Made::refusing) throw Error(ErrorCode::Unsupported, "too long for its compiler");
    return std::make_unique<Kernel>(*this, program, std::move(indices));
  }

 private:
  class Kernel final : public runtime::RowKernel {
   public:
    Kernel(MadeDevice& device, const ir::Program& program, runtime::RowIndices indices)
        : device_(device), program_(program), indices_(std::move(indices)) {}
    Columns run(const runtime::RowNumbers& numbers) override {
      const auto at = [](std::span<const double> from, const auto& columns) {
        Columns out;
        for (const auto& column : columns) {
          out.emplace_back();
          for (const std::uint32_t place : column)
            out.back().push_back(from.empty() ? 0 : from[place]);
        }
        return out;
      };
      Rows rows{.count = indices_.count,
                .parameters = at(numbers.x, indices_.parameters),
                .data = indices_.data,
                .uniforms = at(numbers.uniforms, indices_.uniforms),
                .tangents = at(numbers.direction, indices_.parameters)};
      for (const auto& column : numbers.seeds)
        rows.seeds.emplace_back(column.begin(), column.end());
      return device_.run(program_, rows);
    }

   private:
    MadeDevice& device_;
    ir::Program program_;
    runtime::RowIndices indices_;
  };

  Made made_;
  std::unique_ptr<runtime::RowRunner> inner_ =
      runtime::cpu::make_row_runner(Precision::f64, codegen::Bits::portable);
};

Numbers random_numbers(std::size_t n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Numbers p(n);
  for (double& v : p) v = static_cast<float>(uniform(random));
  return p;
}

/// All values of an engine, and two steps.
Numbers values_of(Engine& engine, const OwnedModel& m) {
  Numbers out = {engine.cost()};
  const auto add = [&](std::size_t size, const auto& evaluate) {
    Numbers values(size);
    evaluate(values);
    out.insert(out.end(), values.begin(), values.end());
  };
  const Numbers p = random_numbers(m.x.size()), seeds = random_numbers(m.model.rows);
  add(m.model.rows, [&](Numbers& v) { engine.residuals(v); });
  add(m.x.size(), [&](Numbers& v) { engine.gradient(v); });
  add(m.x.size(), [&](Numbers& v) { engine.jtjp(p, v); });
  add(m.x.size(), [&](Numbers& v) { engine.vjp(seeds, v); });
  add(m.model.rows, [&](Numbers& v) { engine.jvp(p, v); });
  add(m.x.size(), [&](Numbers& v) { engine.abilities().second_derivatives->hvp(p, v); });
  runtime::DampedSteps& steps = *engine.abilities().steps;
  steps.begin_solve();
  for (int step = 0; step < 2; ++step) {
    out.push_back(steps.linearize().cost);
    out.push_back(steps.try_step(StepRequest{.lambda = 1, .max_linear_iterations = 20}).trial_cost);
    steps.accept();
  }
  add(m.x.size(), [&](Numbers& v) { engine.point(v); });
  return out;
}

Numbers gradient(Engine& engine, const OwnedModel& m) {
  Numbers g(m.x.size());
  engine.gradient(g);
  return g;
}

// A device that runs the kernels changes no bit of what is computed from them.
TEST(CpuEngine, KernelsOnADeviceLeaveAllBits) {
  const EngineOptions options{.deterministic = true};
  for (const auto& [name, make, size] : kCases) {
    SCOPED_TRACE(name);
    const OwnedModel m = make(size);
    const auto engine = [&](std::unique_ptr<runtime::RowRunner> device) {
      auto made = runtime::cpu::make_cpu_engine(m.model, options, codegen::Bits::portable,
                                                {std::move(device), nullptr});
      made->set_point(m.x);
      return made;
    };
    const auto here = engine(nullptr);
    const Numbers expected = values_of(*here, m);
    const auto there = engine(std::make_unique<MadeDevice>(Made::right));
    EXPECT_EQ(values_of(*there, m), expected);
    EXPECT_EQ(there->stats().kernels_on_cpu, 0u);
    EXPECT_EQ(there->stats().kernels_on_device, here->stats().kernels_on_cpu);
    EXPECT_EQ(there->device().substr(0, 12), "made; sums: ");
    // Kernels that it rounds otherwise, or does not take, are left to the interpreter.
    for (const Made made : {Made::wrong, Made::refusing}) {
      const auto without = engine(std::make_unique<MadeDevice>(made));
      EXPECT_EQ(values_of(*without, m), expected);
      EXPECT_EQ(without->stats().kernels_on_device, 0u);
    }
  }
}

TEST(CpuEngine, RoundingOfADeviceIsChecked) {
  MadeDevice right(Made::right), wrong(Made::wrong);
  EXPECT_NO_THROW(runtime::require_same_rounding(right));
  EXPECT_THROW(runtime::require_same_rounding(wrong), Error);
}

TEST(CpuEngine, CostAndGradient) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(std::string(c.name) + ", " + std::string(codegen::name(precision)));
      OwnedModel m = c.make(c.size);
      if (precision == Precision::f32) round_to_float(m);
      const auto engine = open(m, {.precision = precision});
      const double bound = precision == Precision::f64 ? 1e-13 : 2e-6;
      const double cost = reference_cost(m);
      EXPECT_NEAR(engine->cost(), cost, bound * cost);
      EXPECT_LE(relative_difference(gradient(*engine, m), reference_gradient(m)), bound);
      const runtime::PointReport report = runtime::damped_steps(*engine).linearize();
      EXPECT_EQ(report.cost, engine->cost());
    }
  }
}

TEST(CpuEngine, GradientIsTheCostsSlope) {
  for (const Case& c : {Case{"springs", springs, 20}, Case{"shared", shared_model, 9},
                        Case{"mixed", mixed_model, 2}}) {
    SCOPED_TRACE(c.name);
    const OwnedModel m = c.make(c.size);
    const auto engine = open(m);
    const Numbers g = gradient(*engine, m);
    Numbers x = m.x;
    constexpr double kStep = 1e-5;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const auto cost = [&](double at) {
        x[k] = at;
        engine->set_point(x);
        return engine->cost();
      };
      const double slope = (cost(m.x[k] + kStep) - cost(m.x[k] - kStep)) / (2 * kStep);
      x[k] = m.x[k];
      EXPECT_NEAR(g[k], slope, 1e-7 * (1 + std::fabs(slope))) << k;
    }
  }
}

TEST(CpuEngine, RowsAndProductsWithTheJacobian) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const OwnedModel m = c.make(c.size);
    if (m.model.rows * m.x.size() > 20'000'000) continue;
    const auto engine = open(m);
    Numbers rows(m.model.rows);
    engine->residuals(rows);
    double sum = 0;
    for (double r : rows) sum += r * r / 2;
    EXPECT_NEAR(sum, reference_cost(m), 1e-12 * sum);

    const auto jacobian = reference_jacobian(m);
    const Numbers p = random_numbers(m.x.size());
    Numbers Jp(m.model.rows), want(m.model.rows, 0.0);
    for (std::size_t r = 0; r < want.size(); ++r) {
      want[r] = std::inner_product(p.begin(), p.end(), jacobian[r].begin(), 0.0);
    }
    engine->jvp(p, Jp);
    EXPECT_LE(relative_difference(Jp, want), 1e-13);
    Numbers pulled(p.size()), product(p.size()), want_pulled(p.size(), 0.0);
    for (std::size_t r = 0; r < want.size(); ++r) {
      for (std::size_t k = 0; k < p.size(); ++k) want_pulled[k] += jacobian[r][k] * want[r];
    }
    engine->vjp(want, pulled);
    EXPECT_LE(relative_difference(pulled, want_pulled), 1e-12);
    engine->jtjp(p, product);
    EXPECT_LE(relative_difference(product, want_pulled), 1e-12);
  }
}

TEST(CpuEngine, JacobianOfATerm) {
  OwnedModel m = shared_model(300);
  m.model.constant.assign(m.x.size(), 0);
  m.model.constant[4] = m.model.constant[900] = 1;
  const auto engine = open(m);
  const auto want = reference_jacobian(m);
  Numbers values(300 * 2 * 5);
  engine->jacobian(0, values);
  for (std::size_t at = 0; at < values.size(); ++at) {
    const std::size_t i = at / 10, row = at % 10 / 5;
    const std::uint32_t scalar = m.batches[0]->index(i, static_cast<std::uint32_t>(at % 5));
    const double expected = m.model.constant[scalar] != 0 ? 0 : want[2 * i + row][scalar];
    EXPECT_NEAR(values[at], expected, 1e-14 * std::max(1.0, std::abs(expected))) << at;
  }
}

// All results of an engine at a point and after a step.
Numbers everything(Engine& engine, const OwnedModel& m) {
  Numbers all = gradient(engine, m);
  const Numbers p = random_numbers(m.x.size());
  Numbers v(m.x.size());
  engine.jtjp(p, v);
  all.insert(all.end(), v.begin(), v.end());
  engine.vjp(random_numbers(m.model.rows), v);
  all.insert(all.end(), v.begin(), v.end());
  const runtime::PointReport point = runtime::damped_steps(engine).linearize();
  const runtime::StepReport step = runtime::damped_steps(engine).try_step({.lambda = 1e-3});
  runtime::damped_steps(engine).accept();
  engine.point(v);
  all.insert(all.end(), v.begin(), v.end());
  for (double s :
       {engine.cost(), point.cost, point.gradient_norm, point.gradient_max_norm, point.x_norm,
        step.model_decrease, step.step_norm, step.trial_cost, double(step.linear_iterations)}) {
    all.push_back(s);
  }
  return all;
}

TEST(CpuEngine, TheSameBitsForAnyNumberOfThreads) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    for (const Case& c : {Case{"springs", springs, 20'000}, Case{"shared", shared_model, 30'000},
                          Case{"mixed", mixed_model, 40}, Case{"cameras", cameras_model, 5'000}}) {
      const OwnedModel m = c.make(c.size);
      // Deterministic engines add in another order.
      for (const bool deterministic : {false, true}) {
        Numbers first;
        for (int threads : {1, 2, 3}) {
          const auto engine =
              open(m, {.precision = precision, .threads = threads, .deterministic = deterministic});
          const Numbers all = everything(*engine, m);
          if (first.empty()) first = all;
          EXPECT_EQ(all, first) << c.name << " on " << threads << " threads";
        }
      }
    }
  }
}

TEST(CpuEngine, FollowsChangesOfDataUniformsAndRows) {
  OwnedModel m = shared_model(400);
  const auto engine = open(m);
  gradient(*engine, m);
  m.batches[0]->set_data(17, 0, 3.0);
  m.model.uniforms[1] = -0.75;
  engine->refresh(m.model);
  EXPECT_LE(relative_difference(gradient(*engine, m), reference_gradient(m)), 1e-13);
  m.add_row(0, {3, 7, 8, 1200, 1201, 0}, {0.5});
  engine->refresh(m.model);
  EXPECT_LE(relative_difference(gradient(*engine, m), reference_gradient(m)), 1e-13);
  m.batches[0]->remove(5);
  engine->refresh(m.model);
  EXPECT_LE(relative_difference(gradient(*engine, m), reference_gradient(m)), 1e-13);
}

// δ of the damped normal equations by a dense factorisation, with Ceres' damping.
Eigen::VectorXd dense_step(const OwnedModel& m, const StepRequest& request) {
  const auto rows = reference_jacobian(m);
  Eigen::MatrixXd jacobian(rows.size(), m.x.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t k = 0; k < m.x.size(); ++k) jacobian(r, k) = rows[r][k];
  }
  const Numbers g = reference_gradient(m);
  Eigen::VectorXd minus_g = -Eigen::Map<const Eigen::VectorXd>(g.data(), g.size());
  for (std::size_t k = 0; k < m.model.constant.size(); ++k) {
    if (m.model.constant[k] == 0) continue;
    jacobian.col(k).setZero();
    minus_g(k) = 0;
  }
  Eigen::MatrixXd normal = jacobian.transpose() * jacobian;
  for (Eigen::Index k = 0; k < normal.rows(); ++k) {
    const double s = request.jacobi_scaling ? 1 / (1 + std::sqrt(normal(k, k))) : 1;
    const double d = std::clamp(s * s * normal(k, k), request.min_diagonal, request.max_diagonal);
    normal(k, k) += request.lambda * d / (s * s);
  }
  return normal.ldlt().solve(minus_g);
}

const Case kStepCases[] = {{"springs", springs, 60},
                           {"shared", shared_model, 40},
                           {"chain", chain_model, 64},
                           {"mixed", mixed_model, 4},
                           {"cameras", cameras_model, 40}};

TEST(CpuEngine, StepsSolveTheDampedNormalEquations) {
  for (const Case& c : kStepCases) {
    for (const bool masked : {false, true}) {
      for (const bool scaled : {false, true}) {
        SCOPED_TRACE(std::string(c.name) + (masked ? ", some constant" : "") +
                     (scaled ? ", scaled" : ""));
        OwnedModel m = c.make(c.size);
        if (masked) {
          m.model.constant.assign(m.x.size(), 0);
          for (std::size_t k : {1, 9, 10, 11}) m.model.constant[k] = 1;
        }
        const auto engine = open(m);
        runtime::damped_steps(*engine).linearize();
        const StepRequest request{
            .lambda = 1e-2, .jacobi_scaling = scaled, .linear_tolerance = 1e-13};
        const runtime::StepReport report = runtime::damped_steps(*engine).try_step(request);
        const Eigen::VectorXd want = dense_step(m, request);
        EXPECT_NEAR(report.step_norm, want.norm(), 1e-9 * want.norm());
        EXPECT_GT(report.linear_iterations, 0);
        runtime::damped_steps(*engine).accept();
        Numbers moved(m.x.size());
        engine->point(moved);
        for (std::size_t k = 0; k < moved.size(); ++k) {
          EXPECT_NEAR(moved[k] - m.x[k], want[k], 1e-9 * want.norm()) << k;
          if (masked && m.model.constant[k] != 0) {
            EXPECT_EQ(moved[k], m.x[k]) << k;
          }
        }
        m.x = moved;
        const double trial = reference_cost(m);
        EXPECT_NEAR(report.trial_cost, trial, 1e-9 * std::max(1e-3, trial));
      }
    }
  }
}

// Undamped except for λ: JᵀJ δ + λ δ = −g, with the matrix-free product.
/// 1e16 + 1 is 1e16: sums of the others beside it would be seen.
TEST(ConjugateGradients, SumsAscend) {
  namespace cpu = runtime::cpu;
  constexpr std::size_t kSize = 64;
  cpu::Pool pool(1);
  auto matrix = cpu::product_by<double>([](const double* p, double* q) {
    std::copy_n(p, kSize, q);
    return 1.0;  // so that the length of the step is r · r
  });
  cpu::NoPreconditioner<double> none(kSize, kSize);
  cpu::CgVectors<double> vectors;
  vectors.resize(kSize);
  std::fill_n(vectors.residual.data(), kSize, 1.0);
  vectors.residual.data()[0] = 1e8;
  Numbers x(kSize);
  cpu::conjugate_gradients<double>(pool, matrix, none, vectors, x.data(), {.max_iterations = 1});
  EXPECT_EQ(x[0], 1e24);
  for (std::size_t k = 1; k < kSize; ++k) EXPECT_EQ(x[k], 1e16) << k;
}

TEST(CpuEngine, StepsOfManyInstancesSolveTheNormalEquations) {
  for (const Case& c : {Case{"springs", springs, 4000}, Case{"cameras", cameras_model, 4000}}) {
    SCOPED_TRACE(c.name);
    const OwnedModel m = c.make(c.size);
    const auto engine = open(m);
    runtime::damped_steps(*engine).linearize();
    constexpr double kLambda = 0.1;
    runtime::damped_steps(*engine).try_step({.lambda = kLambda,
                                             .min_diagonal = 1,
                                             .max_diagonal = 1,
                                             .jacobi_scaling = false,
                                             .linear_tolerance = 1e-11});
    Numbers delta(m.x.size()), product(m.x.size());
    engine->abilities().last_step->last_step(delta);
    engine->jtjp(delta, product);
    for (std::size_t k = 0; k < delta.size(); ++k) product[k] = -product[k] - kLambda * delta[k];
    EXPECT_LE(relative_difference(product, gradient(*engine, m)), 1e-10);
  }
}

TEST(CpuEngine, BlocksOfOneInstanceAreInvertedExactly) {
  // Without coupling between blocks the preconditioner is the inverse: one iteration is enough.
  OwnedModel m = springs_model(8, 4);
  m.model.terms.erase(m.model.terms.begin());
  const auto engine = open(m);
  runtime::damped_steps(*engine).linearize();
  const runtime::StepReport report =
      runtime::damped_steps(*engine).try_step({.lambda = 1e-3, .linear_tolerance = 1e-10});
  EXPECT_EQ(report.linear_iterations, 1);
}

TEST(CpuEngine, PredictedDecreaseIsTheLinearModels) {
  OwnedModel m = springs_model(50, 150);
  const auto engine = open(m);
  runtime::damped_steps(*engine).linearize();
  const runtime::StepReport report =
      runtime::damped_steps(*engine).try_step({.lambda = 0.1, .linear_tolerance = 1e-3});
  Numbers moved(m.x.size()), delta(m.x.size());
  runtime::damped_steps(*engine).accept();
  engine->point(moved);
  for (std::size_t k = 0; k < delta.size(); ++k) delta[k] = moved[k] - m.x[k];
  const Numbers g = reference_gradient(m);
  double decrease = -std::inner_product(g.begin(), g.end(), delta.begin(), 0.0);
  for (const auto& row : reference_jacobian(m)) {
    const double image = std::inner_product(row.begin(), row.end(), delta.begin(), 0.0);
    decrease -= image * image / 2;
  }
  EXPECT_NEAR(report.model_decrease, decrease, 1e-9 * decrease);
}

TEST(CpuEngine, RejectedStepsLeaveThePointAlone) {
  OwnedModel m = springs_model(50, 150);
  m.model.constant.assign(m.x.size(), 0);
  m.model.constant[3] = 1;
  const auto engine = open(m);
  const double cost = runtime::damped_steps(*engine).linearize().cost;
  runtime::damped_steps(*engine).try_step({.lambda = 1});
  EXPECT_EQ(engine->cost(), cost);
  const Numbers delta(m.x.size(), 0.25);
  const runtime::StepReport report = runtime::damped_steps(*engine).try_step(delta);
  EXPECT_NEAR(report.step_norm, 0.25 * std::sqrt(m.x.size() - 1.0), 1e-14);
  runtime::damped_steps(*engine).accept();
  Numbers moved(m.x.size());
  engine->point(moved);
  for (std::size_t k = 0; k < moved.size(); ++k) {
    EXPECT_EQ(moved[k], k == 3 ? m.x[k] : m.x[k] + 0.25) << k;
  }
  EXPECT_EQ(engine->cost(), report.trial_cost);
}

TEST(CpuEngine, SecondDerivativesOfResidualsAndEnergies) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    OwnedModel m = energy_model(700, 2000);
    if (precision == Precision::f32) round_to_float(m);
    const auto engine = open(m, {.precision = precision});
    check_second_order(*engine, m, precision == Precision::f64 ? 1e-12 : 2e-5);
  }
}

TEST(CpuEngine, EnergiesHaveNoPartInLeastSquares) {
  OwnedModel m = energy_model(40, 100);
  const auto engine = open(m);
  Numbers rows(m.model.rows), image(m.model.rows), sums(m.x.size());
  engine->residuals(rows);
  engine->jvp(m.x, image);
  const auto j = reference_jacobian(m);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    double expected = 0;
    for (std::size_t k = 0; k < m.x.size(); ++k) expected += j[r][k] * m.x[k];
    EXPECT_NEAR(image[r], expected, 1e-12 * (1 + std::fabs(expected)));
  }
  engine->vjp(rows, sums);
  Numbers transposed(m.x.size());
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t k = 0; k < m.x.size(); ++k) transposed[k] += j[r][k] * rows[r];
  EXPECT_LE(relative_difference(sums, transposed), 1e-12);
}

TEST(CpuEngine, SeveralValuesByOneSweepHaveTheSameBits) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    for (const Case& c : kCases) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(testing::Message() << c.name << ", " << threads << " threads");
        OwnedModel m = c.make(c.size);
        if (precision == Precision::f32) round_to_float(m);
        const auto engine = open(m, {.precision = precision, .threads = threads});
        check_values(*engine, m, precision == Precision::f64 ? 1e-12 : 2e-5, true);
      }
    }
  }
  const OwnedModel m = energy_model(300, 900);
  check_values(*open(m), m, 1e-12, false);
  std::vector<double> gradient(m.x.size());
  double cost = 0;
  const auto engine = open(m);
  const std::uint64_t before = engine->stats().kernels_on_cpu;
  runtime::evaluate(*engine, {.cost = &cost, .gradient = gradient});
  EXPECT_EQ(engine->stats().kernels_on_cpu, before + 3) << "one sweep over each of three terms";
}

TEST(CpuEngine, CountsKernelsAndTimesEveryKind) {
  const OwnedModel m = springs_model(200, 600);
  const auto engine = open(m);
  engine->cost();
  gradient(*engine, m);
  EXPECT_EQ(engine->stats().kernels_on_cpu, 4U);
  EXPECT_EQ(engine->stats().kernels_on_device, 0U);
  using runtime::Pass;
  for (const Pass pass :
       {Pass::residual, Pass::cost, Pass::gradient, Pass::jacobian, Pass::jtjp, Pass::blocks,
        Pass::jvp, Pass::vjp, Pass::hvp, Pass::hessian, Pass::cost_gradient, Pass::values}) {
    EXPECT_GT(engine->abilities().measurements->time(pass, 1, 3).device_us, 0);
  }
  EXPECT_GT(engine->abilities().measurements->time_step(10, 1e-3, 2).device_us, 0);
  EXPECT_LE(relative_difference(gradient(*engine, m), reference_gradient(m)), 1e-13);
}

TEST(CpuEngine, RefusesWhatDoesNotFit) {
  struct Row {
    const char* message;
    void (*act)();
  };
  const Row rows[] = {
      {"gradient: expected 6 scalars, got 5",
       [] {
         const OwnedModel m = springs(2);
         const auto engine = open(m);
         Numbers g(5);
         engine->gradient(g);
       }},
      {"cpu engine: expected indices of parameters below 6, got 6",
       [] {
         OwnedModel m = springs(2);
         m.batches[0]->set_index(1, 2, 6);
         open(m);
       }},
      {"cpu engine: expected at least one parameter, got none",
       [] { runtime::cpu::make_cpu_engine({}, {}); }},
  };
  for (const Row& row : rows) {
    try {
      row.act();
      ADD_FAILURE() << "no error: " << row.message;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), row.message);
    }
  }
}

}  // namespace
}  // namespace topograd::test
