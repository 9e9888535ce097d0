// Bounds, fixed coordinates, a sphere, fixed blocks, dogleg steps and user-defined losses.
#include <cmath>
#include <cstdio>

#include "ceres/ceres.h"

namespace {

struct Toward {
  Toward(double a, double b, double c) : goal{a, b, c} {}
  template <typename T>
  bool operator()(const T* const x, T* residuals) const {
    for (int k = 0; k < 3; ++k) residuals[k] = x[k] - goal[k];
    return true;
  }
  double goal[3];
};

ceres::CostFunction* GoTo(double a, double b, double c) {
  return new ceres::AutoDiffCostFunction<Toward, 3, 3>(new Toward(a, b, c));
}

// rho(s) = 2 (sqrt(1 + s) - 1), as a user would write it.
class SoftLoss : public ceres::LossFunction {
 public:
  void Evaluate(double s, double out[3]) const override {
    const double root = std::sqrt(1 + s);
    out[0] = 2 * (root - 1);
    out[1] = 1 / root;
    out[2] = -1 / (2 * (1 + s) * root);
  }
};

bool Run(const char* name, ceres::Problem& problem, const double* x, double a, double b, double c,
         ceres::TrustRegionStrategyType strategy = ceres::LEVENBERG_MARQUARDT,
         double tolerance = 1e-6) {
  ceres::Solver::Options options;
  options.trust_region_strategy_type = strategy;
  options.function_tolerance = 1e-16;
  options.max_num_iterations = 200;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("%s.0 %.4f\n%s.1 %.4f\n%s.2 %.4f\n", name, x[0], name, x[1], name, x[2]);
  return summary.IsSolutionUsable() && std::abs(x[0] - a) < tolerance &&
         std::abs(x[1] - b) < tolerance && std::abs(x[2] - c) < tolerance;
}

bool Bounds() {
  double x[3] = {0.5, 0.5, 0.5};
  ceres::Problem problem;
  problem.AddResidualBlock(GoTo(2, -3, 0.25), nullptr, x);
  problem.SetParameterUpperBound(x, 0, 1.0);
  problem.SetParameterLowerBound(x, 1, -1.0);
  // Solvers take short steps along a bound at which steps end.
  return Run("bounds", problem, x, 1, -1, 0.25, ceres::LEVENBERG_MARQUARDT, 1e-4) &&
         problem.GetParameterUpperBound(x, 0) == 1.0;
}

bool Subset() {
  double x[3] = {0.5, 0.5, 0.5};
  ceres::Problem problem;
  problem.AddResidualBlock(GoTo(2, -3, 0.25), nullptr, x);
  problem.SetManifold(x, new ceres::SubsetManifold(3, {1}));
  return Run("subset", problem, x, 2, 0.5, 0.25) && problem.ParameterBlockTangentSize(x) == 2;
}

bool Sphere() {
  double x[3] = {2, 0, 0};
  ceres::Problem problem;
  problem.AddResidualBlock(GoTo(3, 4, 0), nullptr, x);
  problem.SetManifold(x, new ceres::SphereManifold<3>);
  return Run("sphere", problem, x, 1.2, 1.6, 0);
}

bool Constant() {
  double x[3] = {0.5, 0.5, 0.5}, y[3] = {1, 2, 3};
  ceres::Problem problem;
  problem.AddResidualBlock(GoTo(2, -3, 0.25), nullptr, x);
  problem.AddResidualBlock(GoTo(7, 7, 7), nullptr, y);
  problem.SetParameterBlockConstant(y);
  return Run("constant", problem, x, 2, -3, 0.25) && y[0] == 1 && y[1] == 2 && y[2] == 3;
}

bool Dogleg() {
  double x[3] = {0.5, 0.5, 0.5};
  ceres::Problem problem;
  problem.AddResidualBlock(GoTo(2, -3, 0.25), nullptr, x);
  return Run("dogleg", problem, x, 2, -3, 0.25, ceres::DOGLEG);
}

// Two goals: the loss of one kind on both balances them in the middle.
bool UserLoss() {
  double x[3] = {0.5, 0.4, 0.5};
  ceres::Problem problem;
  problem.AddResidualBlock(GoTo(1, 1, 1), new SoftLoss, x);
  problem.AddResidualBlock(GoTo(-1, -1, -1), new SoftLoss, x);
  return Run("user_loss", problem, x, 0, 0, 0);
}

}  // namespace

int main(int, char**) {
  const bool good[] = {Bounds(), Subset(), Sphere(), Constant(), Dogleg(), UserLoss()};
  for (const bool one : good)
    if (!one) return 1;
  return 0;
}
