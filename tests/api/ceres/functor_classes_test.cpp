// Cost function classes on functors: constructors, derivatives, composition, checks.
#include <gtest/gtest.h>
#include "../../../ir/error.hpp"

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ceres/ceres.h"
#include "ceres/cubic_interpolation.h"

namespace {

/// r0 = scale x0 y, r1 = sin(x1) + y².
struct Functor {
  explicit Functor(double s = 3) : scale(s) {}
  template <typename T>
  bool operator()(const T* x, const T* y, T* r) const {
    using std::sin;
    r[0] = scale * x[0] * y[0];
    r[1] = sin(x[1]) + y[0] * y[0];
    return true;
  }
  template <typename T>
  bool operator()(T const* const* parameters, T* r) const {
    return (*this)(parameters[0], parameters[1], r);
  }
  double scale;
};

constexpr double kX[2] = {0.7, -0.4}, kY[1] = {1.9};

/// Checks residuals and both Jacobians at kX, kY against the calculus above.
void Expect(const ceres::CostFunction& cost, double tolerance, const char* name) {
  const double* parameters[2] = {kX, kY};
  double r[2], by_x[4], by_y[2];
  double* jacobians[2] = {by_x, by_y};
  ASSERT_TRUE(cost.Evaluate(parameters, r, jacobians)) << name;
  const double expected[8] = {
      3 * 0.7 * 1.9, std::sin(-0.4) + 1.9 * 1.9, 3 * 1.9, 0, 0, std::cos(-0.4), 3 * 0.7, 2 * 1.9};
  const double got[8] = {r[0], r[1], by_x[0], by_x[1], by_x[2], by_x[3], by_y[0], by_y[1]};
  for (int k = 0; k < 8; ++k) EXPECT_NEAR(got[k], expected[k], tolerance) << name << k;
  double* only_y[2] = {nullptr, by_y};
  by_y[0] = 0;
  ASSERT_TRUE(cost.Evaluate(parameters, r, only_y)) << name;
  EXPECT_NEAR(by_y[0], 3 * 0.7, tolerance) << name;
  ASSERT_TRUE(cost.Evaluate(parameters, r, nullptr)) << name;
  EXPECT_NEAR(r[0], expected[0], 1e-15) << name;
}

TEST(CeresFunctors, AutomaticDerivatives) {
  using ceres::AutoDiffCostFunction;
  using Fixed = AutoDiffCostFunction<Functor, 2, 2, 1>;
  using Dynamic = AutoDiffCostFunction<Functor, ceres::DYNAMIC, 2, 1>;
  Functor mine;
  Expect(Fixed(new Functor), 1e-15, "owned");
  Expect(Fixed(&mine, ceres::DO_NOT_TAKE_OWNERSHIP), 1e-15, "not owned");
  Expect(Fixed(std::make_unique<Functor>()), 1e-15, "unique");
  Expect(Fixed(3.0), 1e-15, "in place");
  Expect(Dynamic(new Functor, 2), 1e-15, "dynamic");
  Expect(Dynamic(&mine, 2, ceres::DO_NOT_TAKE_OWNERSHIP), 1e-15, "dynamic, not owned");
  ceres::DynamicAutoDiffCostFunction<Functor, 2> strided(new Functor);
  strided.AddParameterBlock(2);
  strided.AddParameterBlock(1);
  strided.SetNumResiduals(2);
  Expect(strided, 1e-15, "strided");
}

TEST(CeresFunctors, NumericDerivatives) {
  using ceres::NumericDiffCostFunction;
  Expect(NumericDiffCostFunction<Functor, ceres::FORWARD, 2, 2, 1>(new Functor), 1e-5, "forward");
  Expect(NumericDiffCostFunction<Functor, ceres::CENTRAL, 2, 2, 1>(new Functor), 1e-9, "central");
  Expect(NumericDiffCostFunction<Functor, ceres::RIDDERS, 2, 2, 1>(new Functor), 1e-13, "ridders");
  Expect(NumericDiffCostFunction<Functor, ceres::CENTRAL, ceres::DYNAMIC, 2, 1>(
             new Functor, ceres::TAKE_OWNERSHIP, 2),
         1e-9, "dynamic");
  using Inner = ceres::AutoDiffCostFunction<Functor, 2, 2, 1>;
  Expect(NumericDiffCostFunction<Inner, ceres::CENTRAL, 2, 2, 1>(new Inner(new Functor)), 1e-9,
         "of a cost function");
  ceres::DynamicNumericDiffCostFunction<Functor> dynamic(new Functor);
  dynamic.AddParameterBlock(2);
  dynamic.AddParameterBlock(1);
  dynamic.SetNumResiduals(2);
  Expect(dynamic, 1e-9, "dynamic blocks");
}

struct Root {
  bool operator()(const double* x, double* r) const {
    r[0] = std::sqrt(x[0]);
    return true;
  }
};

/// Ridders' first steps go beyond 0, where the function is NaN.
TEST(CeresFunctors, NumericDerivativesNearTheEdgeOfTheDomain) {
  for (const double at : {0.05, 0.02, 0.01, 0.005, 0.002}) {
    const double* parameters[1] = {&at};
    double r = 0, slope = 0;
    double* jacobians[1] = {&slope};
    ceres::NumericDiffCostFunction<Root, ceres::RIDDERS, 1, 1> cost(new Root);
    ASSERT_TRUE(cost.Evaluate(parameters, &r, jacobians));
    const double expected = 0.5 / std::sqrt(at);
    EXPECT_NEAR(slope, expected, 1e-10 * expected) << at;
  }
}

TEST(CeresFunctors, FirstOrderFunctionsMayHaveTheirSizeAtRunTime) {
  struct Product {
    bool operator()(const double* x, double* cost) const {
      cost[0] = x[0] * x[1] + x[2] * x[2];
      return true;
    }
  };
  ceres::NumericDiffFirstOrderFunction<Product, ceres::CENTRAL> function(new Product, 3);
  const double x[3] = {1, 2, 3};
  double cost = 0, gradient[3];
  ASSERT_EQ(function.NumParameters(), 3);
  ASSERT_TRUE(function.Evaluate(x, &cost, gradient));
  const double expected[3] = {2, 1, 6};
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(gradient[k], expected[k], 1e-8) << k;
}

/// Twice another cost function, inside of a functor.
struct Twice {
  explicit Twice(ceres::CostFunction* cost) : inner(cost) {}
  template <typename T>
  bool operator()(const T* x, const T* y, T* r) const {
    if (!inner(x, y, r)) return false;
    for (int k = 0; k < 2; ++k) r[k] = 0.5 * (r[k] + r[k]);
    return true;
  }
  ceres::CostFunctionToFunctor<2, 2, 1> inner;
};

TEST(CeresFunctors, CostFunctionsInsideOfFunctors) {
  using ceres::AutoDiffCostFunction;
  using Numeric = ceres::NumericDiffCostFunction<Functor, ceres::CENTRAL, 2, 2, 1>;
  Expect(AutoDiffCostFunction<Twice, 2, 2, 1>(
             new Twice(new AutoDiffCostFunction<Functor, 2, 2, 1>(new Functor))),
         1e-15, "automatic");
  Expect(AutoDiffCostFunction<Twice, 2, 2, 1>(new Twice(new Numeric(new Functor))), 1e-9,
         "numeric");
  try {
    ceres::CostFunctionToFunctor<2, 2, 2> wrong(new Numeric(new Functor));
    ADD_FAILURE() << "no error";
  } catch (const topograd::Error& error) {
    EXPECT_STREQ(error.what(),
                 "CostFunctionToFunctor: the sizes of the cost function are not those of the "
                 "template (2 residuals over 2 blocks)");
  }
}

class Wrong : public ceres::SizedCostFunction<1, 1> {
 public:
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    residuals[0] = parameters[0][0] * parameters[0][0];
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = parameters[0][0];
    return true;
  }
};

TEST(CeresFunctors, CheckersFindWrongJacobians) {
  const double x = 3;
  const double* parameters[1] = {&x};
  Wrong wrong;
  ceres::GradientChecker checker(&wrong, nullptr, ceres::NumericDiffOptions());
  ceres::GradientChecker::ProbeResults results;
  EXPECT_FALSE(checker.Probe(parameters, 1e-9, &results));
  EXPECT_NEAR(results.maximum_relative_error, 0.5, 1e-9);
  EXPECT_EQ(results.error_log.substr(0, 35), "block 0, residual 0, coordinate 0: ");
  const double* both[2] = {kX, kY};
  ceres::AutoDiffCostFunction<Functor, 2, 2, 1> right(new Functor);
  EXPECT_TRUE(ceres::GradientChecker(&right, nullptr, ceres::NumericDiffOptions())
                  .Probe(both, 1e-9, &results));
}

class Undefined : public ceres::SizedCostFunction<1, 3, 2> {
 public:
  bool Evaluate(double const* const*, double*, double**) const override { return false; }
};

TEST(CeresFunctors, CheckersOfUndefinedFunctionsHaveMatricesOfZeros) {
  const double x[3] = {0.6, 0, 0.8}, y[2] = {1, 2};
  const double* parameters[2] = {x, y};
  const ceres::SphereManifold<3> sphere;
  const std::vector<const ceres::Manifold*> manifolds = {&sphere, nullptr};
  Undefined undefined;
  ceres::GradientChecker::ProbeResults results;
  EXPECT_FALSE(ceres::GradientChecker(&undefined, &manifolds, {}).Probe(parameters, 1, &results));
  EXPECT_FALSE(results.return_value);
  EXPECT_EQ(results.maximum_relative_error, 0);
  ASSERT_EQ(results.local_jacobians.size(), 2u);
  ASSERT_EQ(results.local_numeric_jacobians.size(), 2u);
  for (const auto* matrices : {&results.local_jacobians, &results.local_numeric_jacobians}) {
    for (const ceres::Matrix& matrix : *matrices) {
      EXPECT_EQ(matrix.cols(), 2);
      EXPECT_EQ(matrix.norm(), 0);
    }
  }
}

/// Steep beyond 1, flat below: a solve from 4 crosses.
struct Kinked {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    if (x[0] > T(1)) {
      r[0] = x[0] * x[0] + T(0.1);
    } else {
      r[0] = x[0] + T(0.1);
    }
    return true;
  }
};

TEST(CeresFunctors, BranchesAreTracedAgainWhereTheyFlip) {
  double x = 4;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Kinked, 1, 1>(new Kinked), nullptr, &x);
  ceres::Solver::Summary summary;
  ceres::Solve({}, &problem, &summary);
  EXPECT_TRUE(summary.host_notes.empty());
  EXPECT_EQ(summary.termination_type, ceres::CONVERGENCE) << summary.message;
  EXPECT_NEAR(x, -0.1, 1e-6);
}

TEST(CeresFunctors, InterpolationReproducesQuadratics) {
  std::vector<double> line, plane;
  const auto f = [](double r, double c) { return 2 + r - c + r * c - 0.5 * c * c; };
  for (int i = 0; i < 8; ++i) line.push_back(f(0, i));
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < 8; ++c) plane.push_back(f(r, c));
  const ceres::Grid1D<double> samples(line.data(), 0, 8);
  const ceres::CubicInterpolator<ceres::Grid1D<double>> along(samples);
  const ceres::Grid2D<double> image(plane.data(), 0, 6, 0, 8);
  const ceres::BiCubicInterpolator<ceres::Grid2D<double>> across(image);
  using Number = ceres::Jet<double, 2>;
  Number y;
  along.Evaluate(Number(3.3, 0), &y);
  EXPECT_NEAR(y.a, f(0, 3.3), 1e-14);
  EXPECT_NEAR(y.v[0], -1 - 3.3, 1e-14);
  across.Evaluate(Number(2.6, 0), Number(3.3, 1), &y);
  EXPECT_NEAR(y.a, f(2.6, 3.3), 1e-14);
  EXPECT_NEAR(y.v[0], 1 + 3.3, 1e-14);
  EXPECT_NEAR(y.v[1], -1 + 2.6 - 3.3, 1e-14);
  double beyond = 0;
  along.Evaluate(-5, &beyond);
  EXPECT_EQ(beyond, line[0]);
}

}  // namespace
