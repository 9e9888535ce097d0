// Optimal control: a cart swings its pole up with the least effort, by forces within bounds.
//
// Equations of motion and numbers: Kelly, An Introduction to Trajectory Optimization, SIAM Review
// 59 (2017), section 6.
#include <topograd/topograd.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <numbers>
#include <vector>

namespace tg = topograd;

constexpr double kCart = 1, kPole = 0.3, kLength = 0.5, kGravity = 9.81;
constexpr double kForce = 12, kDistance = 1, kTime = 2;
constexpr std::size_t kSteps = 100;

// Accelerations of cart and pole, of Values or numbers. The angle is 0 where the pole hangs.
template <class T>
static std::array<T, 2> accelerations(const T& angle, const T& spin, const T& force) {
  using std::cos, std::sin;
  const T s = sin(angle), c = cos(angle);
  const T mass = kCart + kPole * s * s;
  const T cart = (kLength * kPole * s * spin * spin + force + kPole * kGravity * c * s) / mass;
  const T pole =
      -(kLength * kPole * c * s * spin * spin + force * c + (kCart + kPole) * kGravity * s) /
      (kLength * mass);
  return {cart, pole};
}

// Simulates the cart under the forces by small steps of Runge and Kutta's method; forces change
// linearly.
static std::array<double, 4> simulate(const std::vector<double>& forces) {
  constexpr int kFine = 200;
  const double h = kTime / kSteps / kFine;
  std::array<double, 4> x = {0, 0, 0, 0};  // position, angle, and their rates
  const auto rate = [](const std::array<double, 4>& at, double force) {
    const auto [cart, pole] = accelerations(at[1], at[3], force);
    return std::array<double, 4>{at[2], at[3], cart, pole};
  };
  const auto moved = [](std::array<double, 4> at, const std::array<double, 4>& by, double length) {
    for (int k = 0; k < 4; ++k) at[k] += length * by[k];
    return at;
  };
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (int k = 0; k < kFine; ++k) {
      const auto force = [&](double t) {
        return forces[step] + (forces[step + 1] - forces[step]) * t / kFine;
      };
      const auto a = rate(x, force(k)), b = rate(moved(x, a, h / 2), force(k + 0.5));
      const auto c = rate(moved(x, b, h / 2), force(k + 0.5)),
                 d = rate(moved(x, c, h), force(k + 1));
      for (int i = 0; i < 4; ++i) x[i] += h / 6 * (a[i] + 2 * b[i] + 2 * c[i] + d[i]);
    }
  }
  return x;
}

int main() {
  // Straight from hanging to standing, a metre further, without force.
  std::vector<double> states, forces(kSteps + 1, 0.0);
  for (std::size_t k = 0; k <= kSteps; ++k) {
    const double t = static_cast<double>(k) / kSteps;
    states.insert(states.end(), {kDistance * t, std::numbers::pi * t, 0, 0});
  }
  tg::Problem problem;
  const tg::Parameters x = problem.add_parameters(states, 4, "states");
  const tg::Parameters u = problem.add_parameters(forces, 1, "forces");
  problem.set_constant(x, 0);
  problem.set_constant(x, kSteps);
  for (std::size_t k = 0; k <= kSteps; ++k) problem.set_bounds(u, k, 0, -kForce, kForce);

  // ∫ u² dt and the equations of motion by the trapezoidal rule.
  const double h = kTime / kSteps;
  for (std::size_t k = 0; k <= kSteps; ++k)
    problem.add_residual(std::sqrt(k == 0 || k == kSteps ? h : 2 * h) * u[k]);
  for (std::size_t k = 0; k < kSteps; ++k) {
    const auto now = accelerations<tg::Value>(x(k, 1), x(k, 3), u[k]);
    const auto next = accelerations<tg::Value>(x(k + 1, 1), x(k + 1, 3), u[k + 1]);
    problem.add_equality({x(k + 1, 0) - x(k, 0) - h / 2 * (x(k, 2) + x(k + 1, 2)),
                          x(k + 1, 1) - x(k, 1) - h / 2 * (x(k, 3) + x(k + 1, 3)),
                          x(k + 1, 2) - x(k, 2) - h / 2 * (now[0] + next[0]),
                          x(k + 1, 3) - x(k, 3) - h / 2 * (now[1] + next[1])},
                         {.label = "motion"});
  }
  const tg::Summary summary = tg::solve(
      problem, {.max_iterations = 200, .constraint_tolerance = 1e-8, .kkt_tolerance = 1e-5});

  const auto at_bound =
      std::ranges::count_if(forces, [](double f) { return std::abs(f) == kForce; });
  const double strongest =
      std::abs(*std::ranges::max_element(forces, {}, [](double force) { return std::abs(force); }));
  const std::array<double, 4> end = simulate(forces);
  std::printf("%s after %d minimisations, effort %.4f\n", tg::name(summary.termination).data(),
              summary.constrained.outer_iterations, summary.final_cost);
  std::printf("strongest force %.4f, %td of %zu at a bound\n", strongest, at_bound, forces.size());
  std::printf("simulated end: cart at %.4f, pole at %.4f pi\n", end[0], end[1] / std::numbers::pi);
  const bool arrives =
      std::abs(end[0] - kDistance) < 0.05 && std::abs(end[1] - std::numbers::pi) < 0.1;
  const bool good =
      strongest <= kForce && at_bound > 0 && arrives && summary.constrained.kkt.feasibility < 1e-6;
  return good ? 0 : 1;
}
