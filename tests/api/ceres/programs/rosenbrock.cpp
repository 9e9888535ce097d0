// Rosenbrock's function as a general objective, with three kinds of gradients.
#include <cmath>
#include <cstdio>

#include "ceres/ceres.h"

namespace {

struct Rosenbrock {
  template <typename T>
  bool operator()(const T* parameters, T* cost) const {
    const T x = parameters[0];
    const T y = parameters[1];
    cost[0] = (1.0 - x) * (1.0 - x) + 100.0 * (y - x * x) * (y - x * x);
    return true;
  }
};

class AnalyticRosenbrock final : public ceres::FirstOrderFunction {
 public:
  bool Evaluate(const double* parameters, double* cost, double* gradient) const override {
    const double x = parameters[0];
    const double y = parameters[1];
    cost[0] = (1.0 - x) * (1.0 - x) + 100.0 * (y - x * x) * (y - x * x);
    if (gradient != nullptr) {
      gradient[0] = -2.0 * (1.0 - x) - 200.0 * (y - x * x) * 2.0 * x;
      gradient[1] = 200.0 * (y - x * x);
    }
    return true;
  }
  int NumParameters() const override { return 2; }
};

bool Minimize(const char* name, ceres::FirstOrderFunction* function) {
  double parameters[2] = {-1.2, 1.0};
  ceres::GradientProblem problem(function);
  ceres::GradientProblemSolver::Options options;
  options.max_num_iterations = 200;
  options.function_tolerance = 1e-16;
  ceres::GradientProblemSolver::Summary summary;
  ceres::Solve(options, problem, parameters, &summary);
  std::printf("%s.initial %.10g\n%s.x %.6f\n%s.y %.6f\n", name, summary.initial_cost, name,
              parameters[0], name, parameters[1]);
  return summary.IsSolutionUsable() && std::abs(parameters[0] - 1) < 1e-4 &&
         std::abs(parameters[1] - 1) < 2e-4 && std::abs(summary.initial_cost - 24.2) < 1e-12;
}

}  // namespace

int main(int, char**) {
  const bool automatic =
      Minimize("automatic", new ceres::AutoDiffFirstOrderFunction<Rosenbrock, 2>(new Rosenbrock));
  const bool analytic = Minimize("analytic", new AnalyticRosenbrock);
  const bool numeric = Minimize(
      "numeric",
      new ceres::NumericDiffFirstOrderFunction<Rosenbrock, ceres::CENTRAL, 2>(new Rosenbrock));
  return automatic && analytic && numeric ? 0 : 1;
}
