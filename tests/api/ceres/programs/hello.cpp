// The nearest point to 10 on the real line, with three kinds of derivatives.
#include <cmath>
#include <cstdio>

#include "ceres/ceres.h"

namespace {

struct Distance {
  template <typename T>
  bool operator()(const T* const x, T* residual) const {
    residual[0] = 10.0 - x[0];
    return true;
  }
};

struct NumericDistance {
  bool operator()(const double* const x, double* residual) const {
    residual[0] = 10.0 - x[0];
    return true;
  }
};

class AnalyticDistance : public ceres::SizedCostFunction<1, 1> {
 public:
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    residuals[0] = 10.0 - parameters[0][0];
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = -1.0;
    return true;
  }
};

double Minimize(ceres::CostFunction* cost) {
  double x = 0.5;
  ceres::Problem problem;
  problem.AddResidualBlock(cost, nullptr, &x);
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return summary.IsSolutionUsable() ? x : 0;
}

}  // namespace

int main(int, char**) {
  using ceres::NumericDiffCostFunction;
  const double x[] = {
      Minimize(new ceres::AutoDiffCostFunction<Distance, 1, 1>(new Distance)),
      Minimize(
          new NumericDiffCostFunction<NumericDistance, ceres::FORWARD, 1, 1>(new NumericDistance)),
      Minimize(
          new NumericDiffCostFunction<NumericDistance, ceres::CENTRAL, 1, 1>(new NumericDistance)),
      Minimize(
          new NumericDiffCostFunction<NumericDistance, ceres::RIDDERS, 1, 1>(new NumericDistance)),
      Minimize(new AnalyticDistance)};
  bool good = true;
  for (const double value : x) {
    std::printf("x %.10g\n", value);
    good = good && std::abs(value - 10) < 1e-6;
  }
  return good ? 0 : 1;
}
