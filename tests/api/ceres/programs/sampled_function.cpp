// Look-up of a function in samples, with derivatives by differences or from an interpolator.
#include <cmath>
#include <cstdio>

#include "ceres/ceres.h"
#include "ceres/cubic_interpolation.h"

namespace {

using Interpolator = ceres::CubicInterpolator<ceres::Grid1D<double>>;

struct InterpolatedResidual {
  explicit InterpolatedResidual(const Interpolator& interpolator) : interpolator_(interpolator) {}

  template <typename T>
  bool operator()(const T* x, T* residuals) const {
    interpolator_.Evaluate(*x, residuals);
    return true;
  }

 private:
  const Interpolator& interpolator_;
};

struct NumericResidual {
  explicit NumericResidual(const Interpolator& interpolator) : interpolator_(interpolator) {}

  bool operator()(const double* x, double* residuals) const {
    interpolator_.Evaluate(*x, residuals);
    return true;
  }

 private:
  const Interpolator& interpolator_;
};

double Solve(ceres::CostFunction* cost) {
  double x = 1.0;
  ceres::Problem problem;
  problem.AddResidualBlock(cost, nullptr, &x);
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return x;
}

}  // namespace

int main(int, char**) {
  const int samples = 10;
  double values[samples];
  for (int i = 0; i < samples; ++i) values[i] = (i - 4.5) * (i - 4.5);
  const ceres::Grid1D<double> array(values, 0, samples);
  const Interpolator interpolator(array);
  const double automatic = Solve(new ceres::AutoDiffCostFunction<InterpolatedResidual, 1, 1>(
      new InterpolatedResidual(interpolator)));
  const double numeric =
      Solve(new ceres::NumericDiffCostFunction<NumericResidual, ceres::CENTRAL, 1, 1>(
          new NumericResidual(interpolator)));
  std::printf("automatic %.3f\nnumeric %.3f\n", automatic, numeric);
  // Cubic splines reproduce quadratics, so the root is at 4.5; it is double, so
  // convergence slows.
  return std::abs(automatic - 4.5) < 0.01 && std::abs(numeric - 4.5) < 0.01 ? 0 : 1;
}
