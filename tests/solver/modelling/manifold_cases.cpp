// Problems with blocks on manifolds.
#include "manifold_cases.hpp"

#include "../../../frontend/manifold.hpp"
#include "../../../frontend/mat.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../solver/solve.hpp"

#include <gtest/gtest.h>
#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace topograd::test {
namespace {

using Quaternion4 = std::array<Value, 4>;

Quaternion4 multiply(const Quaternion4& p, const Quaternion4& q) {
  return {p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
          p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
          p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
          p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0]};
}

Quaternion4 conjugate(const Quaternion4& q) { return {q[0], -q[1], -q[2], -q[3]}; }

Vec3 rotate(const Quaternion4& q, const Vec3& v) {
  const Quaternion4 r = multiply(multiply(q, {literal(0), v.x, v.y, v.z}), conjugate(q));
  return {r[1], r[2], r[3]};
}

Manifold circle() {
  return Manifold::custom(2, 1, [](std::span<const Value> x, std::span<const Value> delta) {
    const Value c = cos(delta[0]), s = sin(delta[0]);
    return std::vector<Value>{c * x[0] - s * x[1], s * x[0] + c * x[1]};
  });
}

}  // namespace

std::unique_ptr<OwnedProblem> pose_graph() {
  constexpr std::size_t kPoses = 24;
  auto out = std::make_unique<OwnedProblem>();
  for (std::size_t k = 0; k < kPoses; ++k) {
    const double t = static_cast<double>(k), a = 0.13 * t + 0.05 * std::sin(3 * t);
    const double e = 0.1 * std::cos(5 * t),
                 n = std::sqrt(std::cos(a) * std::cos(a) + std::sin(a) * std::sin(a) + 2 * e * e);
    out->x.insert(out->x.end(), {std::cos(a) / n, e / n, -e / n, std::sin(a) / n});
  }
  for (std::size_t k = 0; k < kPoses; ++k) {
    const double a = 0.26 * static_cast<double>(k);
    out->x.insert(out->x.end(), {4 * std::cos(a) + 0.2 * std::sin(7 * a), 4 * std::sin(a), 0.3});
  }
  const Parameters q = out->problem.add_parameters(std::span(out->x).first(4 * kPoses), 4);
  const Parameters p = out->problem.add_parameters(std::span(out->x).subspan(4 * kPoses), 3);
  const auto rotation = [&](std::size_t k) {
    return Quaternion4{q(k, 0), q(k, 1), q(k, 2), q(k, 3)};
  };
  for (std::size_t k = 0; k < kPoses; ++k) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{2}}) {
      const std::size_t next = (k + step) % kPoses;
      const double turn = 0.13 * static_cast<double>(step);
      const Quaternion4 between = multiply(conjugate(rotation(k)), rotation(next));
      // Half the axis times the sine of half the angle: the observed rotation is about z.
      const double sign = next < k ? -1 : 1;
      out->problem.add_residual(
          {5.0 * between[1], 5.0 * between[2], 5.0 * (between[3] - sign * std::sin(turn))});
      const Vec3 seen = rotate(conjugate(rotation(k)), p.vec3(next) - p.vec3(k));
      out->problem.add_residual({seen.x - 0.1 * turn, seen.y - 8 * turn, seen.z});
    }
  }
  out->problem.set_constant(q, 0);
  out->problem.set_constant(p, 0);
  out->problem.set_manifold(q, Manifold::quaternion());
  out->arrays = {q, p};
  return out;
}

std::unique_ptr<OwnedProblem> mixture() {
  constexpr std::size_t kCount = 30;
  auto out = std::make_unique<OwnedProblem>();
  std::vector<double>& v = out->x;
  for (std::size_t k = 0; k < kCount; ++k) {
    const double t = static_cast<double>(k);
    v.insert(v.end(), {1 + std::sin(t), std::cos(2 * t), 0.5 * std::sin(3 * t)});
  }
  for (std::size_t k = 0; k < kCount; ++k) {
    const double t = 0.4 * static_cast<double>(k);
    v.insert(v.end(), {std::cos(t), std::sin(t)});
  }
  for (std::size_t k = 0; k < kCount; ++k) {
    const double t = static_cast<double>(k);
    v.insert(v.end(), {0.5 * std::sin(t), 0.4 * std::cos(t), 0.3 + 0.01 * t, 0.6, 0, -0.8, 0, t});
  }
  // Observations: other points of the same manifolds, and noise.
  std::vector<double> truth = v;
  const auto turn = [&](std::size_t first, double angle) {
    const double a = truth[first], b = truth[first + 1];
    truth[first] = std::cos(angle) * a - std::sin(angle) * b;
    truth[first + 1] = std::sin(angle) * a + std::cos(angle) * b;
  };
  for (std::size_t k = 0; k < kCount; ++k) {
    turn(3 * k, 0.4);
    turn(3 * kCount + 2 * k, 0.3);
    turn(5 * kCount + 8 * k, 0.2);
    turn(5 * kCount + 8 * k + 3, 0.3);
    truth[5 * kCount + 8 * k + 7] = 1;
  }
  const auto observed = [](const auto& s, const auto& c, const auto& m, std::size_t k) {
    const std::size_t n = (k + 1) % kCount;
    return std::array{s(k, 0) - s(n, 0), s(k, 1) - s(n, 1),       s(k, 2) - s(n, 2),
                      c(k, 0) - c(n, 0), c(k, 1) + c(n, 1),       m(k, 0) - m(n, 0) + 0.1 * c(k, 0),
                      m(k, 1) * 1.0,     m(k, 2) * 1.0,           m(k, 3) - m(n, 4),
                      m(k, 5) * 1.0,     m(k, 6) + 0.4 * s(k, 2), m(k, 7) - 2.0 * m(k, 3)};
  };
  const auto block = [&](std::size_t first, std::size_t width) {
    return [&truth, first, width](std::size_t k, std::size_t j) {
      return truth[first + width * k + j];
    };
  };
  Problem& problem = out->problem;
  const Parameters s = problem.add_parameters(std::span(v).first(3 * kCount), 3);
  const Parameters c = problem.add_parameters(std::span(v).subspan(3 * kCount, 2 * kCount), 2);
  const Parameters m = problem.add_parameters(std::span(v).subspan(5 * kCount), 8);
  for (std::size_t k = 0; k < kCount; ++k) {
    const auto r = observed(s, c, m, k);
    const auto at = observed(block(0, 3), block(3 * kCount, 2), block(5 * kCount, 8), k);
    const auto term = [&](std::size_t i) {
      return r[i] - (at[i] + 0.05 * std::sin(static_cast<double>(3 * k + i)));
    };
    problem.add_residual({term(0), term(1), term(2)});
    problem.add_residual({term(3), term(4)});
    problem.add_residual({term(5), term(6), term(7), term(8), term(9), term(10), term(11)});
  }
  for (std::size_t k = 0; k < kCount; ++k) {
    if (k % 4 != 3) problem.set_manifold(s, k, Manifold::sphere(3));
    if (k % 7 == 2) problem.set_constant(s, k);
  }
  problem.set_constant(s, 3, 0b010);  // of a free one
  problem.set_manifold(c, circle());
  problem.set_manifold(m, Manifold::product(Manifold::so3_axis_angle(),
                                            Manifold::eigen_quaternion(), Manifold::euclidean(1)));
  return out;
}

std::unique_ptr<OwnedProblem> room() {
  auto out = pose_graph();
  const Parameters p = out->arrays[1];
  for (std::size_t k = 1; k < p.size(); ++k) {
    double& x = out->x[4 * p.size() + 3 * k];
    x = std::min(x, 3.0);
    out->problem.set_upper_bound(p, k, 0, 3);
    out->problem.set_lower_bound(p, k, 2, 0.1);
  }
  return out;
}

void expect_long_turns_end_at_the_target(const SolverOptions& options) {
  constexpr double kPi = std::numbers::pi;
  const Eigen::Vector3d axis(0.48, 0.6, 0.64), target(0.5, -0.2, 0.9);
  const Eigen::Matrix3d turned =
      Eigen::AngleAxisd(target.norm(), target.normalized()).toRotationMatrix();
  for (const bool product : {false, true}) {
    for (const double angle : {kPi, 4.0, 2 * kPi - 1e-6, 2 * kPi, 2 * kPi + 1e-6, 3 * kPi, 1e8}) {
      SCOPED_TRACE(angle);
      std::vector<double> x = {axis[0] * angle, axis[1] * angle, axis[2] * angle};
      if (product) x.push_back(2);
      Problem problem;
      const Parameters at = problem.add_parameters(x, product ? 4 : 3);
      const Manifold turns = Manifold::so3_axis_angle();
      problem.set_manifold(at, product ? Manifold::product(turns, Manifold::euclidean(1)) : turns);
      const Eigen::Matrix3d w = Eigen::Matrix3d{{1, 0, 0.2}, {0.1, 1, 0}, {0.3, 0.1, 1}};
      for (int k = 0; k < 3; ++k) {
        const Eigen::Vector3d from = w.row(k), to = turned * from;
        problem.add_residual(rotation_matrix(Vec3{at(0, 0), at(0, 1), at(0, 2)}) *
                                 Vec3{from[0], from[1], from[2]} -
                             Vec3{to[0], to[1], to[2]});
      }
      if (product) problem.add_residual(at(0, 3) - 1.0);
      const Summary summary = solve(problem, options);
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
      const double rounding = options.precision == Precision::f64 ? 1e-6 : 1e-3;
      const Eigen::Vector3d end(x[0], x[1], x[2]);
      EXPECT_LT((end - target).norm(), rounding) << end.transpose();
    }
  }
}

}  // namespace topograd::test
