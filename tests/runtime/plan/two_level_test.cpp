// The two-level preconditioner: its plan against brute force, its matrix against dense algebra.
#include <gtest/gtest.h>

#include "../../../runtime/cpu/engine.hpp"
#include "../../../runtime/cpu/linear/step_preconditioner.hpp"
#include "../../../runtime/linear/coarse_plan.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "../engines/engine_models.hpp"

namespace topograd::test {
namespace {

using runtime::CoarsePlan;
using runtime::kNoAggregate;
using runtime::plan_coarse_space;
using runtime::Preconditioner;
using Reason = runtime::PreconditionerReason;
using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

Matrix dense_jacobian(const OwnedModel& m) {
  const auto rows = reference_jacobian(m);
  Matrix J(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(m.x.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    J.row(static_cast<Eigen::Index>(i)) =
        Eigen::Map<const Vector>(rows[i].data(), J.cols()).transpose();
  }
  return J;
}

Matrix dense_vectors(const CoarsePlan& plan, std::span<const double> vectors, Eigen::Index rows) {
  Matrix P = Matrix::Zero(rows, plan.unknowns());
  for (std::uint32_t f = 0; f < plan.functions; ++f) {
    for (std::uint32_t e = 0; e < plan.entries(); ++e) {
      P(plan.scalars[e], plan.homes[e] * plan.functions + f) = vectors[f * plan.entries() + e];
    }
  }
  return P;
}

TEST(CoarsePlan, CoversAMeshWithConnectedAggregatesOfBoundedNumber) {
  const OwnedModel m = sheet_model(24);
  const CoarsePlan plan = plan_coarse_space(m.model, m.x);
  ASSERT_GT(plan.aggregates, 8u);
  EXPECT_LE(plan.unknowns(), runtime::kMostCoarse);
  EXPECT_EQ(plan.functions, 6u);  // the rotations follow
  EXPECT_EQ(plan.entries(), m.x.size());
  EXPECT_TRUE(std::set<std::uint32_t>(plan.scalars.begin(), plan.scalars.end()).size() ==
              m.x.size());
  EXPECT_EQ(std::ranges::count(plan.follows, 1), std::ptrdiff_t(m.x.size() / 2));
}

TEST(CoarsePlan, AggregatesOfAColourHaveNoNeighbourInCommon) {
  const OwnedModel m = sheet_model(24);
  const CoarsePlan plan = plan_coarse_space(m.model, m.x);
  std::vector<std::uint32_t> home(m.x.size(), kNoAggregate);
  for (std::uint32_t e = 0; e < plan.entries(); ++e) home[plan.scalars[e]] = plan.homes[e];
  std::vector<std::set<std::uint32_t>> near(plan.aggregates);
  for (std::size_t i = 0; i < m.model.terms[0].batch->size(); ++i) {
    for (std::uint32_t s = 0; s < 9; ++s) {
      for (std::uint32_t t = 0; t < 9; ++t) {
        near[home[m.model.terms[0].batch->index(i, s)]].insert(
            home[m.model.terms[0].batch->index(i, t)]);
      }
    }
  }
  for (std::uint32_t g = 0; g < plan.aggregates; ++g) {
    std::set<std::uint32_t> colours;
    for (const std::uint32_t a : near[g]) {
      EXPECT_TRUE(colours.insert(plan.colour[a]).second) << g;
      EXPECT_EQ(plan.sources[plan.colour[a] * plan.aggregates + g], a);
    }
  }
}

TEST(CoarsePlan, SaysWhyThereIsNone) {
  const OwnedModel none = springs_model(8, 4);
  EXPECT_EQ(plan_coarse_space(none.model, none.x).why, runtime::because(Reason::few_connections));
  OwnedModel bounded = sheet_model(12);
  bounded.model.lower.assign(bounded.x.size(), -1e9);
  bounded.model.upper.assign(bounded.x.size(), 1e9);
  EXPECT_EQ(plan_coarse_space(bounded.model, bounded.x).aggregates, 0u);
}

TEST(CoarseControl, PlansDuringASolveWhatItWouldPlanAfterIt) {
  const OwnedModel m = sheet_model(24);
  const CoarsePlan expected = plan_coarse_space(m.model, m.x);
  const auto here = [&] { return m.x; };
  for (const bool ahead : {false, true}) {
    runtime::CoarseControl control(Preconditioner::automatic);
    if (ahead) control.expect(m.model, 2000);
    control.settle();
    ASSERT_TRUE(control.solved(2000));
    ASSERT_TRUE(control.due(m.model, here));
    EXPECT_EQ(control.plan().scalars, expected.scalars);
    EXPECT_EQ(control.plan().sources, expected.sources);
    EXPECT_EQ(control.plan().from, expected.from);
    EXPECT_EQ(control.plan().offsets, expected.offsets);
    EXPECT_EQ(control.plan().spread, expected.spread);
    EXPECT_EQ(control.plan().gather, expected.gather);
    EXPECT_EQ(control.plan().why, expected.why);
  }
  // Work that began before the model changed has no effect.
  runtime::CoarseControl control(Preconditioner::automatic);
  const OwnedModel other = sheet_model(20);
  control.expect(other.model, 2000);
  control.model_changed();
  control.solved(2000);
  ASSERT_TRUE(control.due(m.model, here));
  EXPECT_EQ(control.plan().scalars, expected.scalars);
}

TEST(CoarseControl, ASlowInverseIsWorthMoreIterations) {
  const OwnedModel m = sheet_model(24);
  const auto here = [&] { return m.x; };
  const CoarsePlan plan = plan_coarse_space(m.model, m.x);
  const std::uint64_t n = plan.unknowns(), cost = plan.products() + 50;
  runtime::CoarseControl control(Preconditioner::automatic, n * n * n / 50);
  control.solved(static_cast<int>(cost) - 1);
  EXPECT_FALSE(control.due(m.model, here));
  EXPECT_EQ(control.use().why, runtime::because(Reason::cheaper_than_inverse, cost));
  EXPECT_TRUE(control.solved(1));
  EXPECT_TRUE(control.due(m.model, here));
  // An explicit choice gets it at once, and again as often as otherwise.
  runtime::CoarseControl asked(Preconditioner::two_level, 1);
  EXPECT_TRUE(asked.due(m.model, here));
  asked.built();
  EXPECT_FALSE(asked.solved(static_cast<int>(plan.products()) - 1));
  EXPECT_FALSE(asked.due(m.model, here));
  EXPECT_FALSE(asked.solved(1));
  EXPECT_TRUE(asked.due(m.model, here));
}

TEST(CoarseControl, ATrialDecidesWhetherTheCoarseSpaceStays) {
  const OwnedModel m = sheet_model(24);
  const auto here = [&] { return m.x; };
  const int products = static_cast<int>(plan_coarse_space(m.model, m.x).products());
  // Two thirds of the iterations pass; one more does not.
  for (const int with : {200, 201}) {
    runtime::CoarseControl control(Preconditioner::automatic);
    control.solved(products - 1);
    EXPECT_FALSE(control.due(m.model, here));
    ASSERT_TRUE(control.solved(300));
    ASSERT_TRUE(control.due(m.model, here));
    control.built();
    EXPECT_FALSE(control.solved(with));
    const bool stays = with == 200;
    ASSERT_EQ(control.in_use(), stays);
    if (stays) {
      EXPECT_FALSE(control.due(m.model, here) && with < products);
      control.solved(products);
      EXPECT_TRUE(control.due(m.model, here));
      continue;
    }
    EXPECT_EQ(control.use().why, runtime::because(Reason::no_gain, with, 300));
    control.solved(7);
    EXPECT_EQ(control.use().why, runtime::because(Reason::no_gain, with, 300));
    // The next trial waits for 16 times the iterations.
    int before = 7;
    while (!control.solved(300)) {
      EXPECT_FALSE(control.due(m.model, here));
      before += 300;
    }
    EXPECT_LT(before, 16 * (products + 300));
    EXPECT_GE(before + 300, 16 * (products + 300));
    EXPECT_TRUE(control.due(m.model, here));
    control.begin_solve();
    EXPECT_FALSE(control.due(m.model, here));
  }
}

class DenseInverse final : public runtime::cpu::HostPreconditioner<double> {
 public:
  explicit DenseInverse(const Matrix& inverse) : inverse_(inverse) {}
  std::size_t ranges() const override { return 1; }
  Range range(std::size_t) const override { return {0, static_cast<std::size_t>(inverse_.rows())}; }
  void apply(std::size_t, const double* r, double* z) const override {
    Eigen::Map<Vector>(z, inverse_.rows()) =
        inverse_ * Eigen::Map<const Vector>(r, inverse_.rows());
  }

 private:
  const Matrix& inverse_;
};

TEST(TwoLevel, EqualsTheDensePreconditionerAndKeepsRigidMotions) {
  for (const bool masked : {false, true}) {
    OwnedModel m = sheet_model(12);
    const auto n = static_cast<Eigen::Index>(m.x.size());
    if (masked) {
      m.model.constant.assign(m.x.size(), 0);
      for (const std::size_t k : {0, 1, 2, 40, 500}) m.model.constant[k] = 1;
    }
    const Matrix J = dense_jacobian(m);
    Matrix A = J.transpose() * J;
    A.diagonal().array() += 1e-4;
    for (Eigen::Index k = 0; masked && k < n; ++k) {
      if (m.model.constant[static_cast<std::size_t>(k)] == 0) continue;
      A.row(k).setZero();
      A.col(k).setZero();
    }
    Vector inverse_diagonal(n);
    for (Eigen::Index k = 0; k < n; ++k) inverse_diagonal[k] = A(k, k) > 0 ? 1 / A(k, k) : 0;
    // Blocks of the rotations are full: vectors of followers use their inverse.
    Matrix D = inverse_diagonal.asDiagonal();
    for (Eigen::Index b = 0; b < n; b += 3) {
      if (inverse_diagonal.segment(b, 3).minCoeff() > 0)
        D.block<3, 3>(b, b) = A.block<3, 3>(b, b).inverse();
    }
    const CoarsePlan plan = plan_coarse_space(m.model, m.x);
    ASSERT_GT(plan.aggregates, 2u);
    runtime::cpu::Pool pool(1);
    runtime::cpu::TwoLevel<double> coarse;
    auto times_A = runtime::cpu::product_by<double>([&](const double* p, double* q) {
      Eigen::Map<Vector>(q, n) = A * Eigen::Map<const Vector>(p, n);
      return 0.0;
    });
    ASSERT_TRUE(coarse.build(
        pool, plan,
        {.x = m.x.data(), .scalars = m.x.size(), .matrix = times_A, .blocks = DenseInverse(D)}));
    const Matrix P = dense_vectors(plan, coarse.vectors(), n);
    const Matrix C = P.transpose() * A * P;
    EXPECT_LE((coarse.matrix() - C).norm(), 1e-12 * C.norm());
    if (!masked) {  // a rotation of everything bends nothing
      Vector turned = Vector::Zero(n);
      for (Eigen::Index k = 0; k < n / 6; ++k) {
        turned[3 * k] = -m.x[static_cast<std::size_t>(3 * k + 1)];
        turned[3 * k + 1] = m.x[static_cast<std::size_t>(3 * k)];
        turned[n / 2 + 3 * k + 2] = 1;
      }
      ASSERT_LE((J * turned).norm(), 1e-12 * turned.norm());
      const Vector found = P * P.colPivHouseholderQr().solve(turned);
      EXPECT_LE((found - turned).norm(), 1e-3 * turned.norm());
    }
    // Applied to all unit vectors.
    Matrix M(n, n);
    for (Eigen::Index k = 0; k < n; ++k) {
      const Vector unit = Vector::Unit(n, k);
      Vector z = D * unit;
      const double added = coarse.add(pool, plan, unit.data(), z.data());
      EXPECT_NEAR(added, z[k] - D(k, k), 1e-9 * z.norm());
      M.col(k) = z;
    }
    const Matrix want = D + P * C.ldlt().solve(P.transpose());
    EXPECT_LE((M - want).norm(), 1e-6 * want.norm());
    EXPECT_LE((M - M.transpose()).norm(), 1e-9 * M.norm());
    for (Eigen::Index k = 0; k < n; ++k) {
      if (masked && m.model.constant[static_cast<std::size_t>(k)] != 0) M(k, k) = 1;
    }
    EXPECT_GT(Eigen::SelfAdjointEigenSolver<Matrix>(M).eigenvalues().minCoeff(), 0);
  }
}

struct Outcome {
  int iterations = 0;
  std::vector<double> step;
  runtime::PreconditionerUse use;
};

constexpr runtime::StepRequest kLoose{
    .lambda = 1e-8, .linear_tolerance = 1e-4, .max_linear_iterations = 5000};

Outcome one_step(const OwnedModel& m, Preconditioner preconditioner, codegen::Precision precision,
                 int threads = 1, const runtime::StepRequest& request = kLoose) {
  const auto engine = runtime::cpu::make_cpu_engine(
      m.model, {.precision = precision, .threads = threads, .preconditioner = preconditioner});
  engine->set_point(m.x);
  runtime::damped_steps(*engine).linearize();
  const runtime::StepReport report = runtime::damped_steps(*engine).try_step(request);
  Outcome out{report.linear_iterations, std::vector<double>(m.x.size()),
              runtime::damped_steps(*engine).preconditioner()};
  engine->abilities().last_step->last_step(out.step);
  return out;
}

TEST(TwoLevel, TakesAThirdOfTheIterationsToTheSameStep) {
  const OwnedModel m = pulled_sheet_model(32);
  for (const auto precision : {codegen::Precision::f64, codegen::Precision::f32}) {
    const Outcome blocks = one_step(m, Preconditioner::block_jacobi, precision);
    const Outcome two = one_step(m, Preconditioner::two_level, precision);
    EXPECT_EQ(two.use.kind, Preconditioner::two_level);
    EXPECT_EQ(two.use.builds, 1);
    EXPECT_EQ(blocks.use.kind, Preconditioner::block_jacobi);
    EXPECT_LE(3 * two.iterations, blocks.iterations) << two.iterations;
  }
}

TEST(Preconditioners, AllFindTheSameStepForAnyNumberOfThreads) {
  const OwnedModel m = pulled_sheet_model(32);
  const runtime::StepRequest exact{
      .lambda = 1e-4, .linear_tolerance = 1e-12, .max_linear_iterations = 5000};
  const auto f64 = codegen::Precision::f64;
  const Outcome blocks = one_step(m, Preconditioner::block_jacobi, f64, 1, exact);
  for (const runtime::PreconditionerRow& row : std::span(runtime::kPreconditioners).subspan(1)) {
    if (!row.on_cpu) continue;
    SCOPED_TRACE(row.name);
    const Outcome one = one_step(m, row.value, f64, 1, exact);
    EXPECT_EQ(one.use.kind, row.value);
    EXPECT_LE(one.iterations, blocks.iterations);
    EXPECT_LE(relative_difference(one.step, blocks.step), 1e-8);
    EXPECT_EQ(one.step, one_step(m, row.value, f64, 0, exact).step);
  }
}

TEST(TwoLevel, AutomaticWaitsUntilIterationsHaveCostAsMuch) {
  const OwnedModel m = pulled_sheet_model(32);
  const auto engine =
      runtime::cpu::make_cpu_engine(m.model, {.preconditioner = Preconditioner::automatic});
  engine->set_point(m.x);
  runtime::damped_steps(*engine).begin_solve();
  runtime::damped_steps(*engine).linearize();
  const auto iterations_of_a_step = [&] {
    return static_cast<std::uint64_t>(
        runtime::damped_steps(*engine).try_step(kLoose).linear_iterations);
  };
  // The first step is solved both ways.
  const std::uint64_t both = iterations_of_a_step();
  const runtime::PreconditionerUse use = runtime::damped_steps(*engine).preconditioner();
  EXPECT_EQ(use.kind, Preconditioner::two_level);
  EXPECT_LE(use.products, both);
  EXPECT_LT(3 * iterations_of_a_step(), both);
  runtime::damped_steps(*engine).begin_solve();
  EXPECT_EQ(runtime::damped_steps(*engine).preconditioner().builds, 0);
}

}  // namespace
}  // namespace topograd::test
