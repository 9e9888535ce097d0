// Regression with every kind of derivative, options by name, and the small solver.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "ceres/ceres.h"
#include "ceres/tiny_solver.h"
#include "ceres/tiny_solver_autodiff_function.h"
#include "ceres/tiny_solver_cost_function_adapter.h"

namespace {

// y = b0 (1 - exp(-b1 x)), over all points at once; x in hundreds, so that b1 is not small.
struct Growth {
  Growth(const double* x, const double* y, int n) : x_(x), y_(y), n_(n) {}
  template <typename T>
  bool operator()(const T* const b, T* residual) const {
    for (int i = 0; i < n_; ++i) {
      const T x(x_[i]);
      residual[i] = y_[i] - (b[0] * (1.0 - exp(-b[1] * x)));
    }
    return true;
  }
  const double* x_;
  const double* y_;
  const int n_;
};

// The distance of a point on a parabola from the origin, for the small solver.
struct Parabola {
  using Scalar = double;
  enum { NUM_RESIDUALS = 2, NUM_PARAMETERS = 1 };
  template <typename T>
  bool operator()(const T* const t, T* residuals) const {
    residuals[0] = t[0] - 1.0;
    residuals[1] = t[0] * t[0] - 2.0;
    return true;
  }
};

}  // namespace

int main(int, char**) {
  std::vector<double> x, y;
  for (int k = 1; k <= 14; ++k) {
    x.push_back(0.5 * k);
    y.push_back(238.9 * (1 - std::exp(-5.5e-2 * x.back())) + 0.1 * std::sin(5.0 * k));
  }
  const int n = static_cast<int>(x.size());
  ceres::Solver::Options options;
  if (!ceres::StringToMinimizerType("trust_region", &options.minimizer_type)) return 1;
  if (!ceres::StringToLinearSolverType("dense_qr", &options.linear_solver_type)) return 1;
  if (!ceres::StringToPreconditionerType("jacobi", &options.preconditioner_type)) return 1;
  if (!ceres::StringToLineSearchInterpolationType("cubic", &options.line_search_interpolation_type))
    return 1;
  options.max_num_iterations = 10000;
  options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance = 1e-16;

  ceres::NumericDiffOptions ridders;
  ridders.max_num_ridders_extrapolations = 3;
  ridders.ridders_relative_initial_step_size = 1e-2;
  const auto F = [&] { return new Growth(x.data(), y.data(), n); };
  const auto own = ceres::TAKE_OWNERSHIP;
  ceres::CostFunction* ways[] = {
      new ceres::AutoDiffCostFunction<Growth, ceres::DYNAMIC, 2>(F(), n),
      new ceres::NumericDiffCostFunction<Growth, ceres::CENTRAL, ceres::DYNAMIC, 2>(F(), own, n),
      new ceres::NumericDiffCostFunction<Growth, ceres::FORWARD, ceres::DYNAMIC, 2>(F(), own, n),
      new ceres::NumericDiffCostFunction<Growth, ceres::RIDDERS, ceres::DYNAMIC, 2>(F(), own, n,
                                                                                    ridders)};
  double b[2] = {0, 0};
  for (ceres::CostFunction* way : ways) {
    b[0] = 500;
    b[1] = 1e-2;
    ceres::Problem problem;
    problem.AddResidualBlock(way, nullptr, b);
    ceres::Solver::Summary summary;
    ceres::Solve(options, &problem, &summary);
    std::printf("cost %.6f\nb0 %.5g\nb1 %.5g\n", summary.final_cost, b[0], 100 * b[1]);
  }

  ceres::AutoDiffCostFunction<Growth, ceres::DYNAMIC, 2> cost(F(), n);
  ceres::TinySolverCostFunctionAdapter<Eigen::Dynamic, 2> adapter(cost);
  ceres::TinySolver<ceres::TinySolverCostFunctionAdapter<Eigen::Dynamic, 2>> tiny;
  tiny.options.max_num_iterations = 10000;
  tiny.options.gradient_tolerance = tiny.options.parameter_tolerance = 1e-18;
  Eigen::Matrix<double, 2, 1> start(250, 5e-2);
  tiny.Solve(adapter, &start);
  std::printf("tiny-b0 %.5g\ntiny-b1 %.5g\n", start(0), 100 * start(1));

  Parabola parabola;
  ceres::TinySolverAutoDiffFunction<Parabola, 2, 1> function(parabola);
  ceres::TinySolver<ceres::TinySolverAutoDiffFunction<Parabola, 2, 1>> small;
  Eigen::Matrix<double, 1, 1> t(3.0);
  const auto& summary = small.Solve(function, &t);
  std::printf("t %.6f\ntiny-cost %.6f\n", t(0), summary.final_cost);
  return std::abs(b[0] - 238.9) < 5 ? 0 : 1;
}
