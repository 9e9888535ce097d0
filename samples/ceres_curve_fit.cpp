// An unmodified program for Ceres: fits y = exp(m x + c) to noisy samples with outliers.
#include <ceres/ceres.h>

#include <cmath>
#include <iostream>
#include <random>

struct ExponentialResidual {
  template <typename T>
  bool operator()(const T* const m, const T* const c, T* residual) const {
    residual[0] = y - exp(m[0] * x + c[0]);
    return true;
  }
  double x, y;
};

int main() {
  std::mt19937 random(42);
  std::normal_distribution<double> noise(0.0, 0.05);
  double m = 0.0, c = 0.0;
  ceres::Problem problem;
  ceres::LossFunction* loss = new ceres::CauchyLoss(0.2);
  for (int i = 0; i < 67; ++i) {
    const double x = 0.075 * i;
    const double outlier = i % 13 == 5 ? 8.0 : 0.0;
    const double y = std::exp(0.3 * x + 0.1) + noise(random) + outlier;
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<ExponentialResidual, 1, 1, 1>(
                                 new ExponentialResidual{x, y}),
                             loss, &m, &c);
  }

  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::cout << summary.FullReport() << "\n";
  std::cout << "m = " << m << ", c = " << c << "\n";
  const bool near_truth = std::abs(m - 0.3) < 0.02 && std::abs(c - 0.1) < 0.08;
  return near_truth && summary.IsSolutionUsable() ? 0 : 1;
}
