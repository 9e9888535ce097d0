// Robust losses, bounds and manifolds: a line with outliers, a direction of unit length,
// covariance.
#include <topograd/topograd.hpp>

#include <cmath>
#include <cstdio>

namespace tg = topograd;

namespace {

/// y = 2 t + 1, except at every seventh point; the slope is kept below 5.
void fit_line() {
  std::vector<double> line = {0.0, 0.0};
  tg::Problem problem;
  const tg::Parameters p = problem.add_parameters(line);
  std::vector<tg::Residual> points;
  for (int k = 0; k < 50; ++k) {
    const double t = 0.1 * k, y = 2 * t + 1 + 0.01 * std::sin(31.0 * k) + (k % 7 == 3 ? 20 : 0);
    points.push_back(problem.add_residual(p[0] * t + p[1] - y, {.loss = tg::cauchy(0.1)}));
  }
  problem.set_bounds(p, 0, 0, -5.0, 5.0);
  tg::solve(problem);
  std::printf("cauchy(0.1): y = %.3f t + %.3f\n", line[0], line[1]);

  // Another loss for the same residuals: only numbers change, nothing is compiled.
  for (const tg::Residual& point : points) problem.set_loss(point, tg::tukey(0.2));
  tg::solve(problem);
  std::printf("tukey(0.2):  y = %.3f t + %.3f\n", line[0], line[1]);

  const tg::Covariance covariance(problem);
  std::printf("variance of the slope: %.3g\n", covariance.block({p, 0}, {p, 0})(0, 0));
}

/// The unit vector that is most nearly perpendicular to three others.
void fit_direction() {
  std::vector<double> axis = {1, 0, 0};
  tg::Problem problem;
  const tg::Parameters n = problem.add_parameters(axis, 3);
  const double edges[3][3] = {{1, 2, 0.1}, {-2, 1, 0}, {0.5, 0.5, -0.1}};
  for (const auto& e : edges) {
    const tg::Vec3 v = n.vec3(0);
    problem.add_residual(v.x * e[0] + v.y * e[1] + v.z * e[2]);
  }
  problem.set_manifold(n, 0, tg::Manifold::sphere(3));
  tg::solve(problem);
  std::printf("normal: %.3f %.3f %.3f\n", axis[0], axis[1], axis[2]);
}

}  // namespace

int main() {
  fit_line();
  fit_direction();
}
