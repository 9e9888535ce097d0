// ceres::Solve on residuals that cannot be traced: they run on the CPU, and the report says why.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ceres/ceres.h"

namespace {

struct Branches {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    if (x[0] > T(1)) {
      r[0] = 2.0 * x[0] - 1.0 - 3.0;
    } else {
      r[0] = x[0] - 3.0;
    }
    return true;
  }
};

struct Constant {
  template <typename T>
  bool operator()(const T*, T* r) const {
    r[0] = T(3);
    return true;
  }
};

struct Squared : ceres::SizedCostFunction<1, 1> {
  explicit Squared(double factor) : slope(factor) {}
  bool Evaluate(double const* const* x, double* r, double** jacobians) const override {
    r[0] = x[0][0] * x[0][0] - 2;
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = slope * x[0][0];
    return x[0][0] > -10;
  }
  const double slope;
};

// The numbers are those that Ceres 2.1 reports.
TEST(CeresHost, AFailedStartHasNoSteps) {
  double x = -11;
  ceres::Problem problem;
  problem.AddResidualBlock(new Squared(2), nullptr, &x);
  for (const auto minimizer : {ceres::TRUST_REGION, ceres::LINE_SEARCH}) {
    ceres::Solver::Options options;
    options.minimizer_type = minimizer;
    ceres::Solver::Summary summary;
    ceres::Solve(options, &problem, &summary);
    EXPECT_EQ(summary.termination_type, ceres::FAILURE);
    EXPECT_EQ(summary.num_successful_steps, 0);
    EXPECT_EQ(summary.num_unsuccessful_steps, 0);
    EXPECT_EQ(summary.initial_cost, -1);
    EXPECT_NE(summary.BriefReport().find("Iterations: 0, "), std::string::npos);
  }
}

/// Two rows, of which one is not written.
struct HalfWritten {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    r[0] = x[0] - 3.0;
    return true;
  }
  template <typename T>
  bool operator()(T const* const* x, T* r) const {
    return (*this)(x[0], r);
  }
};
struct HalfDerived : ceres::SizedCostFunction<2, 1> {
  bool Evaluate(double const* const* x, double* r, double** jacobians) const override {
    r[0] = r[1] = x[0][0] - 3;
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][1] = 1;
    return true;
  }
};

// Ceres ends these with FAILURE and names the residual "Uninitialized".
TEST(CeresHost, WhatACostFunctionForgetsIsAFailure) {
  auto* dynamic = new ceres::DynamicAutoDiffCostFunction<HalfWritten>(new HalfWritten);
  dynamic->AddParameterBlock(1);
  dynamic->SetNumResiduals(2);
  const struct {
    ceres::CostFunction* cost;
    const char* message;
  } rows[] = {
      {new ceres::AutoDiffCostFunction<HalfWritten, 2, 1>(new HalfWritten), "not written in row 1"},
      {dynamic, "not written in row 1"},
      {new ceres::NumericDiffCostFunction<HalfWritten, ceres::CENTRAL, 2, 1>(new HalfWritten),
       "not written in row 1"},
      {new HalfDerived, "a derivative of host residual \"host\" #0 is not written"},
  };
  for (const auto& row : rows) {
    double x = 1, cost = 0;
    ceres::Problem problem;
    problem.AddResidualBlock(row.cost, nullptr, &x);
    ceres::Solver::Summary summary;
    ceres::Solve({}, &problem, &summary);
    EXPECT_EQ(summary.termination_type, ceres::FAILURE);
    EXPECT_NE(summary.message.find(row.message), std::string::npos) << summary.message;
    EXPECT_EQ(x, 1);
    std::vector<double> gradient;
    EXPECT_FALSE(problem.Evaluate({}, &cost, nullptr, &gradient, nullptr)) << row.message;
  }
}

struct HalfGradient : ceres::FirstOrderFunction {
  bool Evaluate(const double* x, double* cost, double* gradient) const override {
    *cost = x[0] * x[0] + x[1] * x[1];
    if (gradient != nullptr) gradient[0] = 2 * x[0];
    return true;
  }
  int NumParameters() const override { return 2; }
};

TEST(CeresHost, AGradientThatIsHalfWrittenIsAFailure) {
  double x[] = {3, 4};
  const ceres::GradientProblem problem(new HalfGradient);
  ceres::GradientProblemSolver::Summary summary;
  ceres::Solve({}, problem, x, &summary);
  EXPECT_EQ(summary.termination_type, ceres::FAILURE) << summary.message;
  EXPECT_EQ(x[1], 4);
}

TEST(CeresHost, StartsAreMovedIntoTheirBounds) {
  double x = 1;
  ceres::Problem problem;
  problem.AddResidualBlock(new Squared(2), nullptr, &x);
  problem.SetParameterLowerBound(&x, 0, 3);
  ceres::Solver::Options options;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::CONVERGENCE) << summary.message;
  EXPECT_EQ(x, 3);
  EXPECT_EQ(summary.initial_cost, 24.5);
  options.minimizer_type = ceres::LINE_SEARCH;
  ceres::Solve(options, &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::FAILURE);
  EXPECT_EQ(summary.message, "LINE_SEARCH Minimizer does not support bounds.");
}

TEST(CeresHost, WrongGradientsEndTheSolveWithTheirBlock) {
  double x = 3, y = 2;
  ceres::Problem problem;
  problem.AddResidualBlock(new Squared(2), nullptr, &x);
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Branches, 1, 1>(new Branches), nullptr,
                           &y);
  ceres::Solver::Options options;
  options.check_gradients = true;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::CONVERGENCE) << summary.message;
  EXPECT_NEAR(x, std::sqrt(2.0), 1e-6);
  EXPECT_TRUE(summary.options_without_effect.empty());

  double z = 3;
  problem.AddResidualBlock(new Squared(1), nullptr, &z);
  ceres::Solve(options, &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::FAILURE);
  EXPECT_FALSE(summary.IsSolutionUsable());
  EXPECT_EQ(summary.message.find("Gradient Error detected!\nExtra info for this residual: "
                                 "Residual block id 2; depends on parameters [0x"),
            0u)
      << summary.message;
  EXPECT_NE(summary.message.find("Worst relative error was 0.5."), std::string::npos);
  EXPECT_EQ(z, 3);
}

// The smallest eigenvalue of diag(1, 2, 4) by its root along the sphere: at (1, 0, 0).
struct Rooted {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    for (int k = 0; k < 3; ++k) r[k] = std::sqrt(static_cast<double>(1 << k)) * x[k];
    return true;
  }
};

TEST(CeresHost, LineSearchMovesOnManifolds) {
  double x[3] = {0.6, 0.48, 0.64};
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Rooted, 3, 3>(new Rooted), nullptr, x);
  problem.SetManifold(x, new ceres::SphereManifold<3>);
  ceres::Solver::Options options;
  options.minimizer_type = ceres::LINE_SEARCH;
  options.function_tolerance = 1e-14;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  EXPECT_TRUE(summary.IsSolutionUsable()) << summary.message;
  EXPECT_NEAR(x[0], 1, 1e-6);
  EXPECT_NEAR(summary.final_cost, 0.5, 1e-9);
}

/// r = (y - 10 sin x, x): a valley in the shape of a sine.
struct WindingValley {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    using std::sin;
    r[0] = x[1] - 10.0 * sin(x[0]);
    r[1] = x[0];
    return true;
  }
};

TEST(CeresHost, StepsOfLineSearchesAreCounted) {
  double x[2] = {50, 50};
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<WindingValley, 2, 2>(new WindingValley),
                           nullptr, x);
  ceres::Solver::Options options;
  options.minimizer_type = ceres::LINE_SEARCH;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  EXPECT_GT(summary.num_line_search_steps, 5);
  int steps = 0, evaluations = 0;
  for (const ceres::IterationSummary& iteration : summary.iterations) {
    steps += iteration.line_search_iterations;
    evaluations += iteration.line_search_function_evaluations;
  }
  EXPECT_EQ(summary.num_line_search_steps, steps);
  EXPECT_GT(evaluations, steps);
}

// 2 x - 1 beyond 1, x before: continuous, with the root 2 beyond the kink.
TEST(CeresHost, BranchesFindTheirSide) {
  double x = -5;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Branches, 1, 1>(new Branches), nullptr,
                           &x);
  ceres::Solver::Summary summary;
  ceres::Solve(ceres::Solver::Options(), &problem, &summary);
  EXPECT_TRUE(summary.IsSolutionUsable()) << summary.FullReport();
  EXPECT_NEAR(x, 2, 1e-8);
}

TEST(CeresHost, ResidualsWithoutDerivativesStillCost) {
  double x = 1;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Constant, 1, 1>(new Constant), nullptr,
                           &x);
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Branches, 1, 1>(new Branches), nullptr,
                           &x);
  ceres::Solver::Summary summary;
  ceres::Solve(ceres::Solver::Options(), &problem, &summary);
  EXPECT_NEAR(summary.final_cost, 4.5, 1e-12);
  EXPECT_NEAR(x, 2, 1e-6);
  ASSERT_FALSE(summary.host_notes.empty());
  EXPECT_NE(summary.FullReport().find("\nCost functions on the CPU:\n  1 residual blocks: "),
            std::string::npos)
      << summary.FullReport();
}

struct Falling : ceres::LossFunction {
  void Evaluate(double s, double rho[3]) const override {
    rho[0] = -2 * s;
    rho[1] = -2;
    rho[2] = 0;
  }
};

struct Row : ceres::SizedCostFunction<1, 1> {
  bool Evaluate(double const* const* x, double* r, double** jacobians) const override {
    r[0] = x[0][0] - 1;
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = 1;
    return true;
  }
};

TEST(CeresHost, LossesThatDecreaseAreNamed) {
  const auto scaled = [](ceres::LossFunction* rho, double a) {
    return new ceres::ScaledLoss(rho, a, ceres::TAKE_OWNERSHIP);
  };
  const struct {
    ceres::LossFunction* loss;
    double x;
    const char* says;
  } rows[] = {
      {scaled(new ceres::HuberLoss(0.5), -2), 3,
       "Solve: scaled huber(0.5) loss: scale must be a finite number >= 0, got -2, in residual "
       "block #1"},
      {scaled(nullptr, -2), 1,
       "Solve: scaled trivial loss: scale must be a finite number >= 0, got -2, in residual block "
       "#1"},
      {scaled(new Falling, -1), 1,
       "Solve: scaled LossFunction loss: scale must be a finite number >= 0, got -1, in residual "
       "block #1"},
      {new Falling, 3,
       "solve: the loss \"LossFunction\" of host residual \"residual block 1\" #1 has slope -2 at "
       "a "
       "squared norm of 4; expected a slope >= 0"},
      {new Falling, 1,  // no negative cost is seen without a residual
       "solve: the loss \"LossFunction\" of host residual \"residual block 1\" #1 has slope -2 at "
       "a "
       "squared norm of 0; expected a slope >= 0"},
  };
  for (const auto& row : rows) {
    double x = row.x;
    ceres::Problem problem;
    problem.AddResidualBlock(new Row, nullptr, &x);
    problem.AddResidualBlock(new Row, row.loss, &x);
    ceres::Solver::Summary summary;
    ceres::Solve(ceres::Solver::Options(), &problem, &summary);
    EXPECT_EQ(summary.termination_type, ceres::FAILURE);
    EXPECT_EQ(summary.message, row.says);
    EXPECT_EQ(x, row.x);
  }
}

/// Undefined beyond 3: `return false` there.
class Bounded : public ceres::SizedCostFunction<1, 1> {
 public:
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    const double x = parameters[0][0];
    if (x > 3) return false;
    residuals[0] = x * x * x - 8;
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = 3 * x * x;
    return true;
  }
};

TEST(CeresHost, RefusedPointsAreRejectedSteps) {
  double x = 0.5;  // the first step would reach 11
  ceres::Problem problem;
  problem.AddResidualBlock(new Bounded, nullptr, &x);
  ceres::Solver::Summary summary;
  ceres::Solve(ceres::Solver::Options(), &problem, &summary);
  EXPECT_TRUE(summary.IsSolutionUsable()) << summary.FullReport();
  EXPECT_NEAR(x, 2, 1e-5);
  EXPECT_GT(summary.num_unsuccessful_steps, 0);
}

// A general objective: the caller's numbers change at its end, unless callbacks ask for every step.
TEST(CeresHost, CallbacksOfGradientProblemsSeeTheStartUnlessTheyAsk) {
  struct Bowl final : ceres::FirstOrderFunction {
    bool Evaluate(const double* x, double* cost, double* gradient) const override {
      *cost = 0.5 * (x[0] - 5) * (x[0] - 5) * (1 + (x[0] - 5) * (x[0] - 5));
      if (gradient != nullptr) gradient[0] = (x[0] - 5) * (1 + 2 * (x[0] - 5) * (x[0] - 5));
      return true;
    }
    int NumParameters() const override { return 1; }
  };
  struct Seen final : ceres::IterationCallback {
    explicit Seen(const double* to) : x(to) {}
    ceres::CallbackReturnType operator()(const ceres::IterationSummary&) override {
      values.push_back(*x);
      return ceres::SOLVER_CONTINUE;
    }
    const double* x;
    std::vector<double> values;
  };
  for (const bool updates : {false, true}) {
    double x = 50;
    Seen seen(&x);
    const ceres::GradientProblem problem(new Bowl);
    ceres::GradientProblemSolver::Options options;
    options.callbacks.push_back(&seen);
    options.update_state_every_iteration = updates;
    ceres::GradientProblemSolver::Summary summary;
    ceres::Solve(options, problem, &x, &summary);
    EXPECT_NEAR(x, 5, 1e-4) << summary.FullReport();
    ASSERT_GT(seen.values.size(), 2u);
    EXPECT_EQ(seen.values.front(), 50);
    for (std::size_t k = 1; k < seen.values.size(); ++k)
      EXPECT_EQ(seen.values[k] != 50, updates) << k << " " << seen.values[k];
  }
}

}  // namespace
