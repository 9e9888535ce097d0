// A program for Ceres that an installation must be able to build and run unedited.
#include <cmath>

#include "ceres/ceres.h"
#include "glog/logging.h"

struct CostFunctor {
  template <typename T>
  bool operator()(const T* const x, T* residual) const {
    residual[0] = 10.0 - x[0];
    return true;
  }
};

int main(int, char** argv) {
  google::InitGoogleLogging(argv[0]);
  double x = 0.5;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<CostFunctor, 1, 1>(new CostFunctor),
                           nullptr, &x);
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  CHECK(summary.IsSolutionUsable()) << summary.FullReport();
  return std::abs(x - 10) < 1e-6 ? 0 : 1;
}
