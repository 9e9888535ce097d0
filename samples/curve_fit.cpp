// Fits y = exp(m x + c) to 67 noisy samples of exp(0.3 x + 0.1).
#include <topograd/topograd.hpp>

#include <cmath>
#include <iostream>
#include <random>
#include <vector>

namespace tg = topograd;

int main() {
  std::mt19937 random(42);
  std::normal_distribution<double> noise(0.0, 0.05);
  std::vector<double> x, y;
  for (int i = 0; i < 67; ++i) {
    x.push_back(0.075 * i);
    y.push_back(std::exp(0.3 * x[i] + 0.1) + noise(random));
  }

  std::vector<double> m = {0.0}, c = {0.0};
  tg::Problem problem;
  tg::Parameters slope = problem.add_parameters(m);
  tg::Parameters offset = problem.add_parameters(c);
  for (std::size_t i = 0; i < x.size(); ++i) {
    problem.add_residual(exp(slope[0] * x[i] + offset[0]) - y[i]);
  }

  tg::Summary summary = tg::solve(problem);
  std::cout << summary.brief_report() << "\n";
  std::cout << "m = " << m[0] << ", c = " << c[0] << "\n";
  const bool near_truth = std::abs(m[0] - 0.3) < 0.02 && std::abs(c[0] - 0.1) < 0.08;
  return near_truth && summary.termination == tg::Termination::CONVERGENCE ? 0 : 1;
}
