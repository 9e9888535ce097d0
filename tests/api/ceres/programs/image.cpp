// Position of a part of an image, by bicubic interpolation of its pixels.
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "Eigen/Core"
#include "ceres/ceres.h"
#include "ceres/cubic_interpolation.h"

namespace {

using Grid = ceres::Grid2D<double>;
using Interpolator = ceres::BiCubicInterpolator<Grid>;

struct Match {
  Match(const Interpolator& interpolator, const Eigen::Vector2d& row_column, double value)
      : interpolator_(interpolator), row_column_(row_column), value_(value) {}

  template <typename T>
  bool operator()(const T* translation, T* residuals) const {
    const T row = row_column_(0) + translation[0], column = row_column_(1) + translation[1];
    interpolator_.Evaluate(row, column, residuals);
    residuals[0] -= value_;
    return true;
  }

  static ceres::CostFunction* Create(const Interpolator& interpolator, const Eigen::Vector2d& at,
                                     double value) {
    return new ceres::AutoDiffCostFunction<Match, 1, 2>(new Match(interpolator, at, value));
  }

  const Interpolator& interpolator_;
  Eigen::Vector2d row_column_;
  double value_;
};

}  // namespace

int main(int, char**) {
  const int kSide = 25;
  std::vector<double> pixels;
  for (int r = 0; r < kSide; ++r)
    for (int c = 0; c < kSide; ++c)
      pixels.push_back(std::sin(0.3 * r) * std::cos(0.2 * c + 0.01 * r * c));
  const Grid grid(pixels.data(), 0, kSide, 0, kSide);
  const Interpolator interpolator(grid);
  ceres::Problem problem;
  Eigen::Vector2d translation(1.0, -1.0);
  for (int k = 0; k < 30; ++k) {
    const Eigen::Vector2d at(8 + 4 * std::sin(2.0 * k), 9 + 4 * std::cos(3.0 * k));
    double value;
    interpolator.Evaluate(at(0) + 2.3, at(1) + 0.4, &value);
    problem.AddResidualBlock(Match::Create(interpolator, at, value), nullptr, translation.data());
  }
  ceres::Solver::Options options;
  options.function_tolerance = 1e-14;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("row %.6f\ncolumn %.6f\n", translation(0), translation(1));
  return std::abs(translation(0) - 2.3) < 1e-4 ? 0 : 1;
}
