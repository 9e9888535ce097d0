// Fits a circle to 100,000 points: the smallest complete program.
#include <topograd/topograd.hpp>

#include <cmath>
#include <iostream>
#include <vector>

namespace tg = topograd;

int main() {
  std::vector<double> circle = {0, 0, 1};  // the unknowns: centre x, centre y, radius

  tg::Problem problem;
  tg::Vec3 c = problem.add_parameters(circle, 3).vec3(0);
  for (int i = 0; i < 100000; ++i) {
    double x = 2 + 3 * std::cos(0.001 * i), y = -1 + 3 * std::sin(0.001 * i);
    problem.add_residual(hypot(x - c.x, y - c.y) - c.z);  // all of these are one kernel
  }

  tg::Summary summary = tg::solve(problem);
  std::cout << summary.brief_report() << "\n"
            << "centre " << circle[0] << ", " << circle[1] << "; radius " << circle[2] << "\n";
  return std::abs(circle[2] - 3) < 1e-6 ? 0 : 1;
}
