// ceres::Solve on residuals that cannot be traced: they run on the CPU, and the report says why.
#include <gtest/gtest.h>

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
  double x = 0.5;  // the first step would go to 11
  ceres::Problem problem;
  problem.AddResidualBlock(new Bounded, nullptr, &x);
  ceres::Solver::Summary summary;
  ceres::Solve(ceres::Solver::Options(), &problem, &summary);
  EXPECT_TRUE(summary.IsSolutionUsable()) << summary.FullReport();
  EXPECT_NEAR(x, 2, 1e-5);
  EXPECT_GT(summary.num_unsuccessful_steps, 0);
}

}  // namespace
