// Powell's singular function: four residuals over four blocks, minimum 0 at the origin.
#include <cmath>
#include <cstdio>
#include <string>

#include "ceres/ceres.h"

namespace {

struct F1 {
  template <typename T>
  bool operator()(const T* const x1, const T* const x2, T* residual) const {
    residual[0] = x1[0] + 10.0 * x2[0];
    return true;
  }
};
struct F2 {
  template <typename T>
  bool operator()(const T* const x3, const T* const x4, T* residual) const {
    residual[0] = std::sqrt(5.0) * (x3[0] - x4[0]);
    return true;
  }
};
struct F3 {
  template <typename T>
  bool operator()(const T* const x2, const T* const x3, T* residual) const {
    residual[0] = (x2[0] - 2.0 * x3[0]) * (x2[0] - 2.0 * x3[0]);
    return true;
  }
};
struct F4 {
  template <typename T>
  bool operator()(const T* const x1, const T* const x4, T* residual) const {
    residual[0] = std::sqrt(10.0) * (x1[0] - x4[0]) * (x1[0] - x4[0]);
    return true;
  }
};

}  // namespace

int main(int argc, char** argv) {
  double x1 = 3.0;
  double x2 = -1.0;
  double x3 = 0.0;
  double x4 = 1.0;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<F1, 1, 1, 1>(new F1), nullptr, &x1, &x2);
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<F2, 1, 1, 1>(new F2), nullptr, &x3, &x4);
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<F3, 1, 1, 1>(new F3), nullptr, &x2, &x3);
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<F4, 1, 1, 1>(new F4), nullptr, &x1, &x4);

  ceres::Solver::Options options;
  if (!ceres::StringToMinimizerType(argc > 1 ? argv[1] : "trust_region", &options.minimizer_type))
    return 2;
  options.max_num_iterations = 100;
  options.linear_solver_type = ceres::DENSE_QR;
  options.gradient_tolerance = 1e-14;
  options.function_tolerance = 1e-14;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("initial %.10g\n", summary.initial_cost);
  const double largest =
      std::max(std::max(std::abs(x1), std::abs(x2)), std::max(std::abs(x3), std::abs(x4)));
  // f = 215 at the start (More, Garbow, Hillstrom, problem 13); cost is half of it.
  return std::abs(summary.initial_cost - 107.5) < 1e-12 && summary.final_cost < 1e-8 &&
                 largest < 0.05 && summary.num_residual_blocks == 4
             ? 0
             : 1;
}
