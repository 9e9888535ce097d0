// Covariance of a line's parameters, against the formula of linear regression.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "ceres/ceres.h"

namespace {

struct LineResidual {
  LineResidual(double x, double y) : x(x), y(y) {}
  template <typename T>
  bool operator()(const T* const slope, const T* const offset, T* residual) const {
    residual[0] = slope[0] * x + offset[0] - y;
    return true;
  }
  double x, y;
};

}  // namespace

int main(int, char**) {
  double slope = 0, offset = 0;
  ceres::Problem problem;
  const int n = 10;
  double sx = 0, sxx = 0;
  for (int k = 0; k < n; ++k) {
    const double x = 0.5 * k;
    sx += x;
    sxx += x * x;
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<LineResidual, 1, 1, 1>(
                                 new LineResidual(x, 2 * x + 1 + 0.1 * std::sin(10.0 * k))),
                             nullptr, &slope, &offset);
  }
  ceres::Solver::Summary summary;
  ceres::Solve(ceres::Solver::Options(), &problem, &summary);

  bool good = summary.IsSolutionUsable();
  for (const auto algorithm : {ceres::SPARSE_QR, ceres::DENSE_SVD}) {
    ceres::Covariance::Options options;
    options.algorithm_type = algorithm;
    ceres::Covariance covariance(options);
    const std::vector<std::pair<const double*, const double*>> blocks = {
        {&slope, &slope}, {&offset, &offset}, {&slope, &offset}};
    good = good && covariance.Compute(blocks, &problem);
    double ss = 0, so = 0, os = 0, oo = 0;
    covariance.GetCovarianceBlock(&slope, &slope, &ss);
    covariance.GetCovarianceBlock(&offset, &offset, &oo);
    covariance.GetCovarianceBlock(&slope, &offset, &so);
    covariance.GetCovarianceBlock(&offset, &slope, &os);
    // (A^T A)^-1 for rows (x, 1).
    const double determinant = n * sxx - sx * sx;
    std::printf("ss %.10g\nso %.10g\noo %.10g\n", ss, so, oo);
    good = good && std::abs(ss - n / determinant) < 1e-12 &&
           std::abs(oo - sxx / determinant) < 1e-12 && std::abs(so + sx / determinant) < 1e-12 &&
           so == os;
  }
  return good ? 0 : 1;
}
