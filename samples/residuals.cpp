// The ways to write a residual: plain scalars, vectors, branches, sums, Eigen and eager mode.
#include <topograd/frontend/eigen.hpp>
#include <topograd/topograd.hpp>

#include <Eigen/Geometry>
#include <cmath>
#include <iostream>
#include <vector>

namespace tg = topograd;

// A rope pulls where it is longer than it should be, and else does nothing.
tg::Value rope(const tg::Vec3& a, const tg::Vec3& b, double length) {
  tg::Value stretch = norm(a - b) - length;
  return select(stretch > tg::literal(0.0), stretch, tg::literal(0.0));
}

// A floor: what is below it is pushed up, what is just above it is held, the rest is free.
struct Floor {
  tg::Parameters height;

  tg::Value operator()(tg::Element e) const {
    tg::Value h = e.scalar(height, 0);
    if (h < 0.0) return 10.0 * h;
    if (h < 1.0) return square(h);
    return 0.5 * (h - 1.0) + 1.0;
  }
};

// How far the triangles around a vertex are from being part of a developable surface.
tg::Value curvature(const tg::Vec3& center, const std::vector<tg::Vec3>& ring) {
  std::vector<tg::Value> areas;
  tg::Mat3 normals = outer(tg::triangle_normal(center, ring.back(), ring.front()),
                           tg::triangle_normal(center, ring.back(), ring.front()));
  for (std::size_t k = 0; k + 1 < ring.size(); ++k) {
    tg::Vec3 normal = tg::triangle_normal(center, ring[k], ring[k + 1]);
    normals += outer(normal, normal);
    areas.push_back(tg::triangle_area(center, ring[k], ring[k + 1]));
  }
  return tg::smallest_eigenvalue(normals) * tg::mean(areas);
}

// A point turned about an axis by an unknown angle, with Eigen.
tg::Vec3 turned(const tg::Value& angle, const Eigen::Vector3d& point) {
  using Vector = Eigen::Matrix<tg::Value, 3, 1>;
  Eigen::AngleAxis<tg::Value> rotation(angle, Vector::UnitZ());
  return tg::from_eigen(rotation * point.cast<tg::Value>());
}

bool fold_a_star() {
  std::vector<double> positions = {0.1, 0.2, 1.0};
  for (int k = 0; k < 6; ++k)
    positions.insert(positions.end(), {std::cos(k), std::sin(k), 0.1 * k});
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);
  tg::Uniform stiffness = problem.add_uniform(10.0);
  std::vector<tg::Vec3> ring;
  for (std::size_t k = 1; k < x.size(); ++k) ring.push_back(x.vec3(k));

  for (const tg::Vec3& p : ring)
    problem.add_residual(stiffness * rope(x.vec3(0), p, 1.0), {.label = "rope"});
  problem.add_residual(curvature(x.vec3(0), ring), {.label = "curvature"});
  problem.add_residual(angle_defect(x.vec3(0), ring), {.label = "defect"});
  problem.add_residual(x.vec3(1) - std::array{1.0, 0.0, 0.0});

  tg::Summary summary = tg::solve(problem, {.backend = tg::Backend::cpu});
  std::cout << summary.brief_report() << "\n";
  problem.set(stiffness, 1.0);  // the next solve compiles nothing
  return summary.is_solution_usable() && summary.final_cost < 1e-2 * summary.initial_cost;
}

bool find_an_angle() {
  std::vector<double> angle = {0.0};
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(angle);
  problem.add_residual(turned(x[0], {2.0, 0.0, 1.0}) - std::array{0.0, 2.0, 1.0});
  tg::solve(problem, {.backend = tg::Backend::cpu});
  return std::abs(angle[0] - std::acos(0.0)) < 1e-6;
}

bool fall_to_the_floor() {
  std::vector<double> heights = {-0.3, 0.4, 2.0};
  std::vector<std::uint32_t> all = {0, 1, 2};
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(heights);
  problem.add_residuals(3, Floor{x}, {.indices = all, .label = "floor"});
  tg::Summary summary = tg::solve(problem, {.backend = tg::Backend::cpu, .max_iterations = 200});
  std::cout << summary.num_flips << " flips, " << summary.num_retraces << " traced again\n";
  for (double h : heights)
    if (std::abs(h) > 0.05) return false;
  return summary.num_retraces > 0;
}

bool learn_by_doing() {
  tg::Value x = tg::variable(2.0), y = tg::variable(3.0);
  tg::Value z = x * x * y + sin(y);
  z.backward();
  std::cout << z.value() << ' ' << x.grad() << ' ' << y.grad() << '\n';  // 12.1411 12 3.01001

  for (int step = 0; step < 100; ++step) {
    tg::zero_grad();
    square(x * x - y).backward();
    x.set_value(x.value() - 0.02 * x.grad());
    tg::Value scale = tg::no_grad([&] { return 1.0 / (1.0 + square(y)); });  // a constant
    y.set_value(y.value() - 0.02 * y.grad() * scale.value());
  }
  return std::abs(x.value() * x.value() - y.value()) < 1e-3;
}

int main() {
  return fold_a_star() && find_an_angle() && fall_to_the_floor() && learn_by_doing() ? 0 : 1;
}
