// ceres::Problem: blocks, removal, ownership, evaluation, and callers' mistakes.
#include <gtest/gtest.h>
#include "../../../ir/error.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ceres/ceres.h"

namespace {

struct Sum {
  template <typename T>
  bool operator()(const T* a, const T* b, T* r) const {
    r[0] = a[0] + T(2) * a[1] * b[0];
    r[1] = a[1] - b[0] * b[0];
    return true;
  }
};
ceres::CostFunction* make_sum() { return new ceres::AutoDiffCostFunction<Sum, 2, 2, 1>(new Sum); }

TEST(CeresProblem, KnowsItsBlocks) {
  double a[2] = {1, 2}, b[1] = {3}, c[4] = {};
  ceres::Problem problem;
  const ceres::ResidualBlockId first = problem.AddResidualBlock(make_sum(), nullptr, a, b);
  const ceres::ResidualBlockId second =
      problem.AddResidualBlock(make_sum(), nullptr, std::vector<double*>{a, b});
  problem.AddParameterBlock(c, 4, new ceres::QuaternionManifold);
  EXPECT_EQ(problem.NumParameterBlocks(), 3);
  EXPECT_EQ(problem.NumParameters(), 7);
  EXPECT_EQ(problem.NumResidualBlocks(), 2);
  EXPECT_EQ(problem.NumResiduals(), 4);
  EXPECT_EQ(problem.ParameterBlockSize(c), 4);
  EXPECT_EQ(problem.ParameterBlockTangentSize(c), 3);
  EXPECT_TRUE(problem.HasManifold(c) && !problem.HasManifold(a));
  EXPECT_TRUE(problem.HasParameterBlock(b) && !problem.HasParameterBlock(a + 1));
  std::vector<double*> blocks;
  problem.GetParameterBlocks(&blocks);
  EXPECT_EQ(blocks, (std::vector<double*>{a, b, c}));
  problem.GetParameterBlocksForResidualBlock(second, &blocks);
  EXPECT_EQ(blocks, (std::vector<double*>{a, b}));
  std::vector<ceres::ResidualBlockId> residuals;
  problem.GetResidualBlocksForParameterBlock(b, &residuals);
  EXPECT_EQ(residuals, (std::vector<ceres::ResidualBlockId>{first, second}));
  problem.RemoveResidualBlock(first);
  EXPECT_EQ(problem.NumResidualBlocks(), 1);
  problem.RemoveParameterBlock(b);
  EXPECT_EQ(problem.NumResidualBlocks(), 0);
  EXPECT_EQ(problem.NumParameterBlocks(), 2);
  const double none = std::numeric_limits<double>::max();
  EXPECT_EQ(problem.GetParameterLowerBound(a, 0), -none);
  problem.SetParameterLowerBound(a, 1, -4);
  EXPECT_EQ(problem.GetParameterLowerBound(a, 0), -none);
  EXPECT_EQ(problem.GetParameterLowerBound(a, 1), -4);
  EXPECT_EQ(problem.GetParameterUpperBound(a, 1), none);
}

TEST(CeresProblem, AManifoldWithoutADirectionMakesItsBlockConstant) {
  double x[2] = {1, 2};
  ceres::Problem problem;
  problem.AddParameterBlock(x, 2);
  problem.SetManifold(x, new ceres::SubsetManifold(2, {0}));
  EXPECT_FALSE(problem.IsParameterBlockConstant(x));
  problem.SetManifold(x, new ceres::SubsetManifold(2, {0, 1}));
  EXPECT_TRUE(problem.IsParameterBlockConstant(x));
  problem.SetManifold(x, nullptr);
  EXPECT_FALSE(problem.IsParameterBlockConstant(x));
}

/// Counts its live instances.
class Counted : public ceres::SizedCostFunction<1, 1> {
 public:
  Counted() { ++alive; }
  ~Counted() override { --alive; }
  bool Evaluate(double const* const*, double* residuals, double**) const override {
    residuals[0] = 0;
    return true;
  }
  static int alive;
};
int Counted::alive = 0;

TEST(CeresProblem, OwnsSharedFunctionsOnce) {
  double x = 0, y = 0;
  auto* cost = new Counted;
  auto* loss = new ceres::HuberLoss(1);
  {
    ceres::Problem problem;
    const auto first = problem.AddResidualBlock(cost, loss, &x);
    problem.AddResidualBlock(cost, loss, &y);
    problem.RemoveResidualBlock(first);
    EXPECT_EQ(Counted::alive, 1);
  }
  EXPECT_EQ(Counted::alive, 0);
  Counted mine;
  {
    ceres::Problem::Options options;
    options.cost_function_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
    ceres::Problem problem(options);
    problem.AddResidualBlock(&mine, nullptr, &x);
  }
  EXPECT_EQ(Counted::alive, 1);
}

struct Mistake {
  std::string expected;
  std::function<void(ceres::Problem&)> call;
};

TEST(CeresProblem, MistakesAreErrorsWithTheirPlace) {
  static double a[2], b[1], c[3];
  const std::vector<Mistake> rows = {
      {"AddResidualBlock: expected 2 parameter blocks (the cost function reads blocks of 2, 1), "
       "got 1, in residual block #1",
       [](ceres::Problem& p) { p.AddResidualBlock(make_sum(), nullptr, a); }},
      {"AddResidualBlock: parameter block 1 has size 2, the cost function expects 1, in residual "
       "block #1",
       [](ceres::Problem& p) { p.AddResidualBlock(make_sum(), nullptr, c, a); }},
      {"AddResidualBlock: parameter block 1 is a null pointer, in residual block #1",
       [](ceres::Problem& p) {
         p.AddResidualBlock(make_sum(), nullptr, a, static_cast<double*>(nullptr));
       }},
      {"AddParameterBlock: the block is there with size 2, got 3",
       [](ceres::Problem& p) { p.AddParameterBlock(a, 3); }},
      {"SetManifold: expected a manifold in blocks of 2, got one in blocks of 4",
       [](ceres::Problem& p) { p.SetManifold(a, new ceres::QuaternionManifold); }},
      {"SetParameterBlockConstant: the parameter block is not part of this problem (problem has 2)",
       [](ceres::Problem& p) { p.SetParameterBlockConstant(c); }},
      {"SetParameterUpperBound: coordinate 2 is out of range (the block has 2)",
       [](ceres::Problem& p) { p.SetParameterUpperBound(a, 2, 1); }},
      {"SubsetManifold", [](ceres::Problem&) { ceres::SubsetManifold wrong(2, {2}); }},
  };
  for (const Mistake& row : rows) {
    ceres::Problem problem;
    problem.AddResidualBlock(make_sum(), nullptr, a, b);
    try {
      row.call(problem);
      ADD_FAILURE() << "no error: " << row.expected;
    } catch (const topograd::Error& error) {
      const std::string text = error.what();
      if (row.expected == "SubsetManifold") continue;
      EXPECT_EQ(text, row.expected);
    }
    EXPECT_EQ(problem.NumResidualBlocks(), 1);
  }
}

/// Counts its live instances.
struct Watched : ceres::SizedCostFunction<1, 2> {
  Watched() { ++alive; }
  ~Watched() override { --alive; }
  bool Evaluate(double const* const*, double*, double**) const override { return false; }
  static inline int alive = 0;
};
struct WatchedLoss : ceres::LossFunction {
  WatchedLoss() { ++Watched::alive; }
  ~WatchedLoss() override { --Watched::alive; }
  void Evaluate(double, double*) const override {}
};
struct WatchedManifold : ceres::Manifold {
  WatchedManifold() { ++Watched::alive; }
  ~WatchedManifold() override { --Watched::alive; }
  int AmbientSize() const override { return 3; }
  int TangentSize() const override { return 3; }
  bool Plus(const double*, const double*, double*) const override { return false; }
  bool PlusJacobian(const double*, double*) const override { return false; }
  bool Minus(const double*, const double*, double*) const override { return false; }
  bool MinusJacobian(const double*, double*) const override { return false; }
};

TEST(CeresProblem, OwnsWhatItWasHandedBeforeAnError) {
  double a[2] = {1, 2}, b[3] = {};
  {
    ceres::Problem problem;
    problem.AddParameterBlock(b, 3);
    EXPECT_THROW(problem.AddResidualBlock(new Watched, new WatchedLoss, b), topograd::Error);
    EXPECT_THROW(problem.AddResidualBlock(nullptr, new WatchedLoss, b), topograd::Error);
    EXPECT_EQ(Watched::alive, 0);
    auto* shared = new Watched;
    problem.AddResidualBlock(shared, nullptr, a);
    EXPECT_THROW(problem.AddResidualBlock(shared, nullptr, b), topograd::Error);
    EXPECT_EQ(Watched::alive, 1);
    EXPECT_THROW(problem.SetManifold(a, new WatchedManifold), topograd::Error);
    EXPECT_THROW(problem.SetManifold(b + 1, new WatchedManifold), topograd::Error);
    EXPECT_THROW(problem.AddParameterBlock(a, 4, new WatchedManifold), topograd::Error);
  }
  EXPECT_EQ(Watched::alive, 0);
  ceres::Problem::Options options;
  options.cost_function_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
  Watched mine;
  ceres::Problem problem(options);
  EXPECT_THROW(problem.AddResidualBlock(&mine, nullptr, b, b), topograd::Error);
  EXPECT_EQ(Watched::alive, 1);
}

TEST(CeresProblem, EvaluatesAtTheUsersValues) {
  double a[2] = {1, 2}, b[1] = {3};
  ceres::Problem problem;
  problem.AddResidualBlock(make_sum(), nullptr, a, b);
  double cost = 0;
  std::vector<double> residuals, gradient;
  ceres::CRSMatrix jacobian;
  ceres::Problem::EvaluateOptions options;
  ASSERT_TRUE(problem.Evaluate(options, &cost, &residuals, &gradient, &jacobian));
  // r = (1 + 2*2*3, 2 - 9); J = (1 2b 2a1 ; 0 1 -2b).
  EXPECT_EQ(residuals, (std::vector<double>{13, -7}));
  EXPECT_EQ(cost, (169 + 49) / 2.0);
  EXPECT_EQ(gradient, (std::vector<double>{13, 13 * 6 - 7, 13 * 4 + 42}));
  EXPECT_EQ(jacobian.rows, (std::vector<int>{0, 3, 6}));
  EXPECT_EQ(jacobian.cols, (std::vector<int>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(jacobian.values, (std::vector<double>{1, 6, 4, 0, 1, -6}));

  // Constant blocks have columns of zeros; named blocks alone have columns.
  problem.SetParameterBlockConstant(b);
  ASSERT_TRUE(problem.Evaluate(options, nullptr, nullptr, &gradient, &jacobian));
  EXPECT_EQ(gradient, (std::vector<double>{13, 71, 0}));
  EXPECT_EQ(jacobian.num_cols, 3);
  options.parameter_blocks = {a};
  ASSERT_TRUE(problem.Evaluate(options, nullptr, nullptr, &gradient, &jacobian));
  EXPECT_EQ(gradient, (std::vector<double>{13, 71}));
  problem.SetManifold(a, new ceres::SubsetManifold(2, {0}));
  ASSERT_TRUE(problem.Evaluate(options, nullptr, nullptr, &gradient, &jacobian));
  EXPECT_EQ(gradient, (std::vector<double>{71}));
  EXPECT_EQ(jacobian.num_cols, 1);
}

TEST(CeresProblem, AppliesLossesOnRequest) {
  double a[2] = {1, 2}, b[1] = {3};
  ceres::Problem problem;
  const auto block = problem.AddResidualBlock(make_sum(), new ceres::CauchyLoss(2), a, b);
  double cost = 0, plain = 0;
  std::vector<double> gradient, plain_gradient;
  ceres::Problem::EvaluateOptions options;
  ASSERT_TRUE(problem.Evaluate(options, &cost, nullptr, &gradient, nullptr));
  options.apply_loss_function = false;
  ASSERT_TRUE(problem.Evaluate(options, &plain, nullptr, &plain_gradient, nullptr));
  // rho(s) = 4 log(1 + s / 4), rho' = 1 / (1 + s / 4), s = 218.
  EXPECT_DOUBLE_EQ(cost, 2 * std::log1p(218 / 4.0));
  EXPECT_DOUBLE_EQ(plain, 109);
  for (std::size_t k = 0; k < gradient.size(); ++k)
    EXPECT_NEAR(gradient[k], plain_gradient[k] / (1 + 218 / 4.0), 1e-14);
  double residuals[2], by_b[2];
  double* jacobians[2] = {nullptr, by_b};
  ASSERT_TRUE(problem.EvaluateResidualBlock(block, false, &plain, residuals, jacobians));
  EXPECT_EQ(by_b[0], 4);
  EXPECT_EQ(by_b[1], -6);
}

}  // namespace
