// Parameterizations of Ceres 2.1: values, use in problems, ownership.
#include <gtest/gtest.h>

#include <Eigen/Geometry>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ceres/ceres.h"
#include "ceres/rotation.h"

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Row {
  std::string name;
  std::shared_ptr<ceres::LocalParameterization> of;
  std::vector<double> x, delta;
};

struct Stretch {
  template <typename T>
  bool operator()(const T* x, const T* delta, T* sum) const {
    sum[0] = x[0] + delta[0];
    sum[1] = x[1] * exp(delta[0]);
    return true;
  }
};

/// A user's own, derived from one of Ceres'.
struct Reversed final : ceres::QuaternionParameterization {
  bool Plus(const double* x, const double* delta, double* sum) const override {
    const double back[3] = {-delta[0], -delta[1], -delta[2]};
    return QuaternionParameterization::Plus(x, back, sum);
  }
  bool ComputeJacobian(const double* x, double* jacobian) const override {
    if (!QuaternionParameterization::ComputeJacobian(x, jacobian)) return false;
    for (int k = 0; k < 12; ++k) jacobian[k] = -jacobian[k];
    return true;
  }
};

std::vector<Row> Rows() {
  const double h = 0.5;
  return {
      {"identity", std::make_shared<ceres::IdentityParameterization>(2), {1, 2}, {.1, .2}},
      {"subset",
       std::make_shared<ceres::SubsetParameterization>(3, std::vector<int>{1}),
       {1, 2, 3},
       {.1, .2}},
      {"quaternion",
       std::make_shared<ceres::QuaternionParameterization>(),
       {h, -h, h, h},
       {.1, -.2, .3}},
      {"eigen",
       std::make_shared<ceres::EigenQuaternionParameterization>(),
       {h, -h, h, h},
       {.1, -.2, .3}},
      {"homogeneous",
       std::make_shared<ceres::HomogeneousVectorParameterization>(3),
       {2, -1, .5},
       {.1, -.2}},
      {"line",
       std::make_shared<ceres::LineParameterization<3>>(),
       {1, 2, 3, 2, -1, .5},
       {.1, -.2, .3, .1}},
      {"product",
       std::make_shared<ceres::ProductParameterization>(new ceres::QuaternionParameterization,
                                                        new ceres::IdentityParameterization(2)),
       {h, h, h, h, 1, 2},
       {.1, .2, .3, 4, 5}},
      {"autodiff",
       std::make_shared<ceres::AutoDiffLocalParameterization<Stretch, 2, 1>>(),
       {1, 2},
       {.1}},
      {"derived", std::make_shared<Reversed>(), {h, -h, h, h}, {.1, -.2, .3}},
  };
}

TEST(CeresLocalParameterization, JacobiansAreDerivatives) {
  for (const Row& row : Rows()) {
    const int n = row.of->GlobalSize(), t = row.of->LocalSize();
    ASSERT_EQ(static_cast<std::size_t>(n), row.x.size()) << row.name;
    ASSERT_EQ(static_cast<std::size_t>(t), row.delta.size()) << row.name;
    Matrix jacobian(n, t);
    ASSERT_TRUE(row.of->ComputeJacobian(row.x.data(), jacobian.data()));
    for (int k = 0; k < t; ++k) {
      std::vector<double> step(row.delta.size()), above(row.x.size()), below(row.x.size());
      step[static_cast<std::size_t>(k)] = 1e-6;
      ASSERT_TRUE(row.of->Plus(row.x.data(), step.data(), above.data()));
      step[static_cast<std::size_t>(k)] = -1e-6;
      ASSERT_TRUE(row.of->Plus(row.x.data(), step.data(), below.data()));
      for (int i = 0; i < n; ++i)
        EXPECT_NEAR(
            jacobian(i, k),
            (above[static_cast<std::size_t>(i)] - below[static_cast<std::size_t>(i)]) / 2e-6, 1e-9)
            << row.name << " " << i << ", " << k;
    }
    const Matrix global = Matrix::Random(2, n);
    Matrix local(2, t);
    ASSERT_TRUE(row.of->MultiplyByJacobian(row.x.data(), 2, global.data(), local.data()));
    EXPECT_LT((local - global * jacobian).norm(), 1e-14) << row.name;
  }
}

TEST(CeresLocalParameterization, StepsOfDirectionsAreHalfAsLongAsThoseOfManifolds) {
  const double x[] = {2, -1, .5}, delta[] = {.1, -.2}, half[] = {.05, -.1};
  double sum[3], expected[3];
  ceres::HomogeneousVectorParameterization(3).Plus(x, delta, sum);
  ceres::SphereManifold<3>().Plus(x, half, expected);
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(sum[k], expected[k], 1e-15);
  // The angle is half of ‖δ‖.
  const Eigen::Map<const Eigen::Vector3d> from(x), to(sum);
  EXPECT_NEAR(std::acos(from.normalized().dot(to.normalized())), std::sqrt(0.05) / 2, 1e-12);
}

/// Turns a vector to another.
struct Turn {
  template <typename T>
  bool operator()(const T* q, T* r) const {
    const T v[3] = {T(1), T(2), T(3)};
    T turned[3];
    ceres::UnitQuaternionRotatePoint(q, v, turned);
    r[0] = turned[0] - 3.0;
    r[1] = turned[1] - 1.0;
    r[2] = turned[2] - 2.0;
    return true;
  }
};

TEST(CeresLocalParameterization, AProblemMovesBlocksByThem) {
  for (const bool derived : {false, true}) {
    double q[4] = {1, 0, 0, 0}, other[4] = {1, 0, 0, 0};
    ceres::Problem problem;
    ceres::LocalParameterization* of =
        derived ? new Reversed : new ceres::QuaternionParameterization;
    problem.AddParameterBlock(q, 4, of);
    problem.AddParameterBlock(other, 4);
    EXPECT_FALSE(problem.HasParameterization(other));
    problem.SetParameterization(other, of);
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Turn, 3, 4>(new Turn), nullptr, q);
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Turn, 3, 4>(new Turn), nullptr, other);
    EXPECT_EQ(problem.GetParameterization(q), of);
    EXPECT_TRUE(problem.HasManifold(q));
    EXPECT_EQ(problem.GetManifold(q), problem.GetManifold(other));
    EXPECT_EQ(problem.ParameterBlockLocalSize(q), 3);
    ceres::Solver::Summary summary;
    ceres::Solve({}, &problem, &summary);
    EXPECT_EQ(summary.termination_type, ceres::CONVERGENCE) << summary.message;
    EXPECT_LT(summary.final_cost, 1e-12);
    for (const double* block : {q, other})
      EXPECT_NEAR(Eigen::Map<const Eigen::Vector4d>(block).norm(), 1, 1e-12);
    problem.SetManifold(q, new ceres::QuaternionManifold);
    EXPECT_EQ(problem.GetParameterization(q), nullptr);
    problem.SetParameterization(other, nullptr);
    EXPECT_FALSE(problem.HasManifold(other));
    EXPECT_THROW(problem.SetParameterization(other, new ceres::IdentityParameterization(3)),
                 topograd::Error);
  }
}

struct Sum {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    r[0] = x[0] + x[1] + x[2];
    return true;
  }
};

TEST(CeresLocalParameterization, ConstantCoordinatesAreHeld) {
  double p[3] = {1, 2, 3};
  ceres::SubsetParameterization subset(3, {1});
  ceres::Problem::Options options;
  options.local_parameterization_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
  ceres::Problem problem(options);
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Sum, 1, 3>(new Sum), nullptr, p);
  problem.SetParameterization(p, &subset);
  ceres::Solver::Summary summary;
  ceres::Solve({}, &problem, &summary);
  EXPECT_LT(summary.final_cost, 1e-12);
  EXPECT_EQ(p[1], 2);
}

TEST(CeresLocalParameterization, CheckerAndGradientProblemTakeThem) {
  const double q[4] = {0.5, 0.5, -0.5, 0.5};
  const double* blocks[] = {q};
  const ceres::AutoDiffCostFunction<Turn, 3, 4> turn(new Turn);
  const ceres::QuaternionParameterization quaternion;
  const std::vector<const ceres::LocalParameterization*> all = {&quaternion};
  ceres::GradientChecker::ProbeResults results;
  EXPECT_TRUE(ceres::GradientChecker(&turn, &all, {}).Probe(blocks, 1e-8, &results));
  EXPECT_EQ(results.local_jacobians[0].cols(), 3);
  EXPECT_TRUE(ceres::GradientChecker(&turn, nullptr, {}).Probe(blocks, 1e-8, &results));

  struct Bowl final : ceres::FirstOrderFunction {
    bool Evaluate(const double* x, double* cost, double* gradient) const override {
      *cost = x[0] * x[0] + x[1] * x[1];
      if (gradient != nullptr) gradient[0] = 2 * x[0], gradient[1] = 2 * x[1];
      return true;
    }
    int NumParameters() const override { return 2; }
  };
  const ceres::GradientProblem problem(new Bowl,
                                       new ceres::SubsetParameterization(2, std::vector<int>{0}));
  EXPECT_EQ(problem.NumTangentParameters(), 1);
}

TEST(CeresConditionedCostFunction, PassesResidualsThroughFunctions) {
  struct Double final : ceres::SizedCostFunction<1, 1> {
    bool Evaluate(double const* const* x, double* r, double** jacobians) const override {
      r[0] = x[0][0] * x[0][0];
      if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = 2 * x[0][0];
      return true;
    }
  };
  auto* square = new Double;
  const ceres::ConditionedCostFunction f(new ceres::AutoDiffCostFunction<Turn, 3, 4>(new Turn),
                                         {square, nullptr, square}, ceres::TAKE_OWNERSHIP);
  const ceres::AutoDiffCostFunction<Turn, 3, 4> plain(new Turn);
  const double q[4] = {0.5, 0.5, -0.5, 0.5};
  const double* blocks[] = {q};
  Matrix j(3, 4), expected(3, 4);
  double r[3], given[3];
  double* jacobians[] = {j.data()};
  double* plain_jacobians[] = {expected.data()};
  ASSERT_TRUE(plain.Evaluate(blocks, given, plain_jacobians));
  ASSERT_TRUE(f.Evaluate(blocks, r, jacobians));
  for (int k = 0; k < 3; ++k) {
    const bool squared = k != 1;
    EXPECT_EQ(r[k], squared ? given[k] * given[k] : given[k]);
    EXPECT_LT((j.row(k) - (squared ? 2 * given[k] : 1) * expected.row(k)).norm(), 1e-15);
  }
  EXPECT_TRUE(f.Evaluate(blocks, r, nullptr));
  ceres::AutoDiffCostFunction<Turn, 3, 4> other(new Turn);
  EXPECT_THROW(ceres::ConditionedCostFunction(&other, {nullptr}, ceres::DO_NOT_TAKE_OWNERSHIP),
               topograd::Error);
}

/// sin(|δ| / 2) / |δ| without a case for δ = 0, as in many programs: Plus has no value there.
struct Undivided final : ceres::LocalParameterization {
  bool Plus(const double* x, const double* delta, double* sum) const override {
    const Eigen::Map<const Eigen::Quaterniond> q(x);
    const Eigen::Map<const Eigen::Vector3d> d(delta);
    const double n = d.norm(), s = std::sin(n / 2) / n;
    Eigen::Map<Eigen::Quaterniond> out(sum);
    out = (q * Eigen::Quaterniond(std::cos(n / 2), s * d[0], s * d[1], s * d[2])).normalized();
    return true;
  }
  bool ComputeJacobian(const double* x, double* jacobian) const override {
    const Eigen::Map<const Eigen::Quaterniond> q(x);
    Eigen::Map<Eigen::Matrix<double, 4, 3, Eigen::RowMajor>> J(jacobian);
    J << q.w(), -q.z(), q.y(), q.z(), q.w(), -q.x(), -q.y(), q.x(), q.w(), -q.x(), -q.y(), -q.z();
    J *= 0.5;
    return true;
  }
  int GlobalSize() const override { return 4; }
  int LocalSize() const override { return 3; }
};

struct Turned {
  template <typename T>
  bool operator()(const T* q, T* r) const {
    const Eigen::Quaternion<T> a(q[3], q[0], q[1], q[2]);
    const Eigen::Matrix<T, 3, 1> v = a * Eigen::Matrix<T, 3, 1>(T(1), T(0), T(0));
    r[0] = v[0];
    r[1] = v[1] - T(1);
    r[2] = v[2];
    return true;
  }
};

TEST(LocalParameterization, PlusIsNotAskedForNoStep) {
  double q[4] = {0.1, 0.2, 0.3, 0.9}, at_minimum[4] = {0, 0, std::sqrt(0.5), std::sqrt(0.5)},
         unread[4] = {0.5, 0.5, 0.5, 0.5};
  Eigen::Map<Eigen::Quaterniond>(q).normalize();
  ceres::Problem problem;
  for (double* block : {q, at_minimum, unread}) problem.AddParameterBlock(block, 4, new Undivided);
  for (double* block : {q, at_minimum})
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Turned, 3, 4>(new Turned), nullptr,
                             block);
  ceres::Solver::Options options;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::CONVERGENCE) << summary.message;
  EXPECT_NEAR(summary.initial_cost, 0.3894737, 1e-7);  // as Ceres reports
  EXPECT_LT(summary.final_cost, 1e-15);
  EXPECT_EQ(unread[3], 0.5);
}

}  // namespace
