// A circle through noisy points, its radius as the square of a parameter.
#include <cmath>
#include <cstdio>
#include <random>

#include "ceres/ceres.h"

namespace {

class DistanceFromCircle {
 public:
  DistanceFromCircle(double x, double y) : x_(x), y_(y) {}

  // The point's distance by areas: r^2 - |p - c|^2 has no root to differentiate.
  template <typename T>
  bool operator()(const T* const x, const T* const y, const T* const m, T* residual) const {
    const T r = *m * *m;
    const T dx = x_ - *x;
    const T dy = y_ - *y;
    residual[0] = r * r - dx * dx - dy * dy;
    return true;
  }

 private:
  double x_, y_;
};

}  // namespace

int main(int, char**) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> noise(-0.5, 0.5);
  double x = 10.0;
  double y = 10.0;
  double r = 5.0;
  double m = std::sqrt(r);
  ceres::LossFunction* loss = new ceres::CauchyLoss(200.0);
  ceres::Problem problem;
  const int points = 40;
  for (int i = 0; i < points; ++i) {
    const double angle = 2 * M_PI * i / points;
    const double px = 3.0 + 20.0 * std::cos(angle) + noise(random);
    const double py = 7.0 + 20.0 * std::sin(angle) + noise(random);
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<DistanceFromCircle, 1, 1, 1, 1>(
                                 new DistanceFromCircle(px, py)),
                             loss, &x, &y, &m);
  }
  ceres::Solver::Options options;
  options.max_num_iterations = 500;
  options.linear_solver_type = ceres::DENSE_QR;
  options.function_tolerance = 1e-13;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  r = m * m;
  std::printf("x %.10g\ny %.10g\nr %.10g\ncost %.10g\n", x, y, r, summary.final_cost);
  return summary.IsSolutionUsable() && std::abs(x - 3) < 0.3 && std::abs(y - 7) < 0.3 &&
                 std::abs(r - 20) < 0.3
             ? 0
             : 1;
}
