// The twenty calls that most programs need, each used once: a shape is fitted to measured points.
#include <topograd/topograd.hpp>

#include <cmath>
#include <iostream>
#include <vector>

namespace tg = topograd;

namespace {

/// Points on a circle around (1, 2) with radius 3; the last one is an outlier.
std::vector<double> measured_points(int count) {
  std::vector<double> points;
  for (int i = 0; i < count; ++i) {
    const double angle = 0.1 * i, radius = i + 1 == count ? 5 : 3;
    points.insert(points.end(), {1 + radius * std::cos(angle), 2 + radius * std::sin(angle)});
  }
  return points;
}

}  // namespace

int main() {
  constexpr int kCount = 50;
  const std::vector<double> measured = measured_points(kCount);
  std::vector<double> circle = {0, 0, 1};     // centre x, centre y, radius
  std::vector<double> direction = {1, 0, 0};  // stays on the unit sphere

  tg::Problem problem;
  tg::Parameters c = problem.add_parameters(circle, 3, "circle");        // 1
  tg::Parameters n = problem.add_parameters(direction, 3, "direction");  // 1
  tg::Data points = problem.add_data(measured, 2, "points");             // 2
  tg::Uniform weight = problem.add_uniform(1.0);                         // 3

  std::vector<tg::Residual> blocks;
  for (int i = 0; i < kCount; ++i) {
    tg::Vec3 at = c.vec3(0);      // 4
    tg::Vec2 p = points.vec2(i);  // 4
    tg::Value distance = hypot(p.x - at.x, p.y - at.y) - at.z;
    blocks.push_back(problem.add_residual(weight * distance, {.label = "distance"}));  // 5
  }
  // The same from one call for many elements, whose numbers are columns.
  const std::vector<double> targets = {0, 0.6, 0.8, 0.1, 0.6, 0.8, -0.1, 0.6, 0.8};
  problem.add_residuals(  // 6
      3, [&](tg::Element e) { return n.vec3(0) - e.data_vec3(0); },
      {.data = targets, .label = "target"});

  for (const tg::Residual& block : blocks) problem.set_loss(block, tg::cauchy(0.1));  // 7
  problem.set_manifold(n, 0, tg::Manifold::sphere(3));                                // 8
  problem.set_bounds(c, 0, 2, 0.0, 10.0);                                             // 9
  problem.set_constant(c, 0, 0b001);                                                  // 10
  problem.set_variable(c, 0);                                                         // 10

  const tg::GradientCheck check = tg::check_gradients(problem);           // 11
  const tg::Summary first = tg::solve(problem, {.max_iterations = 100});  // 12
  std::cout << first.brief_report() << "\n" << first.full_report();       // 13
  const bool usable =
      first.is_solution_usable() && first.termination == tg::Termination::CONVERGENCE;

  problem.set(weight, 2.0);       // 14: uniforms and data change without compiling
  problem.set(points, measured);  // 14
  tg::Solver solver(problem, {.function_tolerance = 1e-14,
                              .gradient_tolerance = 1e-12,
                              .parameter_tolerance = 1e-14});  // 15: keeps plans and buffers
  const tg::Summary second = solver.solve();

  tg::Evaluator evaluator(problem);  // 16
  const double cost = evaluator.cost(), slope = evaluator.gradient().norm();
  const tg::Covariance covariance(problem);  // 17
  const double variance = covariance.block(c.block(0), c.block(0))(2, 2);
  const tg::Sensitivity sensitivity(problem, {points});  // 18
  const std::vector<double> radius = {0, 0, 1, 0, 0, 0};
  const Eigen::VectorXd by_points = sensitivity.vjp(radius);
  const std::string glsl = tg::source(problem, {.kernel = "gradient"});  // 19

  std::vector<double> corner = {2, 2};  // energies and constraints, in a problem of their own
  tg::Problem constrained;
  tg::Parameters x = constrained.add_parameters(corner);
  constrained.add_energy(square(x[0]) + square(x[1]));  // 20
  constrained.add_inequality(x[0] * x[1] - 1.0);        // 20: x y >= 1
  constrained.add_equality(x[0] - x[1]);                // 20
  const tg::Summary third = tg::solve(constrained);

  std::cout << "radius " << circle[2] << ", cost " << cost << ", slope " << slope << ", variance "
            << variance << ", effect of a point's x " << by_points[0] << "\n"
            << "corner " << corner[0] << ' ' << corner[1] << "\n";
  const bool right = check.passed() && usable && second.is_solution_usable() &&
                     std::abs(circle[2] - 3) < 1e-2 && std::abs(direction[2] - 0.8) < 1e-6 &&
                     glsl.find("void main") != glsl.npos && third.is_solution_usable() &&
                     std::abs(corner[0] - 1) < 1e-6 && std::abs(corner[1] - 1) < 1e-6;
  return right ? 0 : 1;
}
