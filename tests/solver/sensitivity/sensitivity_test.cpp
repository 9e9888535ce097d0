// Derivatives of solutions against differences of whole solves and closed forms; errors by reason.
#include "../../../solver/sensitivity.hpp"

#include "../../../solver/covariance.hpp"

#include "../../../frontend/geometry.hpp"
#include "../../../frontend/loss.hpp"
#include "../../../frontend/manifold.hpp"
#include "../../../frontend/value/math.hpp"
#include "whole_solves.hpp"

#include <gtest/gtest.h>
#include <Eigen/LU>

#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace topograd {
namespace {

using test::expect_derivative;
using test::Line;
using test::some_numbers;
using test::to_rounding;

std::vector<std::uint32_t> numbered(std::size_t count) {
  std::vector<std::uint32_t> out(count);
  std::iota(out.begin(), out.end(), 0u);
  return out;
}

/// Sets a data array to numbers + t d.
void move_data(Problem& problem, const Data& data, const std::vector<double>& numbers,
               const Eigen::VectorXd& d, double t) {
  std::vector<double> moved = numbers;
  for (std::size_t k = 0; k < moved.size(); ++k) moved[k] += t * d[static_cast<Eigen::Index>(k)];
  problem.set(data, moved);
}

/// min ½ (x² − a)² + ½ w (x − b)²: not zero at the minimum, so that curvature of residuals counts.
struct Scalar {
  Scalar() {
    const Parameters p = problem.add_parameters(x);
    numbers = problem.add_data(std::vector<double>{2, 0.5}, 1, "numbers");
    weight = problem.add_uniform(0.7);
    problem.add_residual(square(p[0]) - numbers[0]);
    problem.add_residual(sqrt(weight.value()) * (p[0] - numbers[1]));
    summary = solve(problem, to_rounding());
  }
  /// The derivatives by a, b and w: from 2x (x² − a) + w (x − b) = 0.
  Eigen::Vector3d exact() const {
    const double curvature = 6 * x[0] * x[0] - 4 + 0.7;
    return {2 * x[0] / curvature, 0.7 / curvature, -(x[0] - 0.5) / curvature};
  }

  std::vector<double> x = {1};
  Problem problem;
  Data numbers;
  Uniform weight;
  Summary summary;
};

TEST(Sensitivity, HasTheClosedFormOfOneUnknown) {
  Scalar one;
  const Sensitivity s(one.problem);
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s.offset(one.numbers), 0u);
  EXPECT_EQ(s.offset(one.weight), 2u);
  const Eigen::Vector3d expected = one.exact();
  EXPECT_NEAR((s.vjp(std::vector<double>{1}) - expected).norm(), 0, 1e-12);
  for (int k = 0; k < 3; ++k)
    EXPECT_NEAR(s.jvp(Eigen::VectorXd(Eigen::Vector3d::Unit(k)))[0], expected[k], 1e-12) << k;
  EXPECT_NEAR(s.vjp(one.weight, std::vector<double>{2}), 2 * expected[2], 1e-12);
  EXPECT_NEAR(s.jvp(one.weight, 3)[0], 3 * expected[2], 1e-12);
  EXPECT_NEAR(s.jvp(one.numbers, std::vector<double>{1, -1})[0], expected[0] - expected[1], 1e-12);
  EXPECT_NEAR(s.vjp(one.numbers, std::vector<double>{1})[1], expected[1], 1e-12);
}

TEST(Sensitivity, TakesPartsInTheOrderOfTheList) {
  Scalar one;
  const Sensitivity s(one.problem, {one.weight, one.numbers});
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s.offset(one.weight), 0u);
  EXPECT_EQ(s.offset(one.numbers), 1u);
  const Eigen::Vector3d e = one.exact();
  EXPECT_NEAR((s.vjp(std::vector<double>{1}) - Eigen::Vector3d(e[2], e[0], e[1])).norm(), 0, 1e-12);
  const Sensitivity alone(one.problem, {one.numbers});
  EXPECT_EQ(alone.size(), 2u);
  EXPECT_THROW(alone.offset(one.weight), Error);
}

TEST(Sensitivity, KeepsWhatItWasMadeOf) {
  Scalar one;
  const Sensitivity s(one.problem);
  const Eigen::VectorXd before = s.vjp(std::vector<double>{1});
  one.problem.set(one.numbers, std::vector<double>{9, 9});
  one.problem.set(one.weight, 5);
  one.x[0] = 4;
  EXPECT_EQ((s.vjp(std::vector<double>{1}) - before).norm(), 0);
}

TEST(Sensitivity, GaussNewtonIsExactForLinearResiduals) {
  const std::vector<double> t = {0, 1, 2, 3, 4, 5};
  std::vector<double> y, x = {0, 0};
  for (const double at : t) y.push_back(std::sin(at));
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data seen = problem.add_data(y);
  problem.add_residuals(t.size(),
                        [=](Element e) { return p[0] + p[1] * e.data(0) - seen[e.index(0)]; },
                        {.indices = numbered(t.size()), .data = t});
  solve(problem, to_rounding());
  const Sensitivity full(problem);
  const Sensitivity gauss_newton(problem, {.form = SensitivityForm::gauss_newton});
  // The pseudo-inverse of the design matrix.
  Eigen::MatrixXd design(6, 2);
  for (int k = 0; k < 6; ++k) design.row(k) << 1, t[static_cast<std::size_t>(k)];
  const Eigen::MatrixXd expected = (design.transpose() * design).inverse() * design.transpose();
  for (const Sensitivity* s : {&full, &gauss_newton})
    for (int k = 0; k < 2; ++k)
      EXPECT_LE(
          (s->vjp(Eigen::VectorXd(Eigen::Vector2d::Unit(k))) - expected.row(k).transpose()).norm(),
          1e-12);
}

TEST(Sensitivity, GaussNewtonDropsTheCurvatureOfResiduals) {
  Scalar one;
  const Sensitivity s(one.problem, {.form = SensitivityForm::gauss_newton});
  const double x = one.x[0];
  EXPECT_NEAR(s.vjp(std::vector<double>{1})[0], 2 * x / (4 * x * x + 0.7), 1e-12);
}

/// Curves a exp(−b t) + c through noisy numbers, with a loss.
struct Decay {
  explicit Decay(Loss loss) {
    for (int k = 0; k < 20; ++k) {
      times.push_back(0.3 * k);
      seen.push_back(2 * std::exp(-0.6 * times.back()) + 0.4 + 0.05 * std::sin(7.0 * k));
    }
    seen[3] += 1.5;
    seen[11] -= 0.8;
    const Parameters p = problem.add_parameters(x);
    y = problem.add_data(seen);
    t = problem.add_data(times);
    weight = problem.add_uniform(3);
    const Data ys = y, ts = t;
    const Uniform w = weight;
    problem.add_residuals(times.size(),
                          [=](Element e) {
                            const Value at = ts[e.index(0)];
                            return w * (p[0] * exp(-p[1] * at) + p[2] - ys[e.index(0)]);
                          },
                          {.indices = numbered(times.size()), .loss = loss});
    solve(problem, to_rounding());
  }
  std::vector<double> x = {1, 1, 0}, times, seen;
  Problem problem;
  Data y, t;
  Uniform weight;
};

TEST(Sensitivity, FollowsLosses) {
  for (const Loss& loss : {Loss(), Loss::cauchy(0.5), Loss::soft_l1(1), Loss::tukey(6),
                           Loss::scaled(Loss::arctan(1.1), 2)}) {
    SCOPED_TRACE(loss.describe());
    Decay decay(loss);
    const Sensitivity s(decay.problem);
    const Eigen::VectorXd d = some_numbers(s.size(), 1);
    const Line line{.problem = decay.problem,
                    .move =
                        [&](double h) {
                          move_data(decay.problem, decay.y, decay.seen, d.head(20), h);
                          move_data(decay.problem, decay.t, decay.times, d.segment(20, 20), h);
                          decay.problem.set(decay.weight, 3 + h * d[40]);
                        },
                    .dtheta = d,
                    .newton_steps = 3};
    expect_derivative(s, line);
  }
}

TEST(Sensitivity, HoldsUnknownsOnActiveBounds) {
  // Without bounds the second unknown would be below its own, and the third above.
  const std::vector<double> wish = {1, -2, 3, 0.4};
  std::vector<double> x = {0.5, 0.5, 0.5, 0.5};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data target = problem.add_data(wish);
  for (std::size_t k = 0; k < 4; ++k) problem.add_residual(p[k] - target[k]);
  for (std::size_t k = 0; k < 3; ++k)
    problem.add_residual(0.7 * p[k] * p[k + 1] - target[k] * target[k + 1]);
  for (std::size_t k = 0; k < 4; ++k) problem.set_bounds(p, k, 0, 0, 1.5);
  solve(problem, to_rounding());
  EXPECT_EQ(x[1], 0);
  EXPECT_EQ(x[2], 1.5);
  const Sensitivity s(problem);
  EXPECT_EQ(s.active_bounds(), 2u);
  const Eigen::VectorXd d = some_numbers(4, 2);
  expect_derivative(s, {.problem = problem,
                        .move = [&](double h) { move_data(problem, target, wish, d, h); },
                        .dtheta = d});
  const Eigen::VectorXd dx = s.jvp(d);
  EXPECT_EQ(dx[1], 0);
  EXPECT_EQ(dx[2], 0);
}

TEST(Sensitivity, FixedUnknownsStay) {
  Decay decay{Loss()};
  std::vector<double> more = {0.3};
  const Parameters q = decay.problem.add_parameters(more);
  decay.problem.add_residual(q[0] - decay.y[2]);
  decay.problem.set_constant(q, 0);
  const Sensitivity s(decay.problem);
  EXPECT_EQ(s.jvp(some_numbers(s.size(), 5))[3], 0);
  const Eigen::VectorXd back = s.vjp(std::vector<double>{0, 0, 0, 1});
  EXPECT_EQ(back.norm(), 0);
}

TEST(Sensitivity, MovesInTangentSpaces) {
  // A rotation by 0.5 about z that aligns noisy vectors, and a direction that they pull.
  const std::vector<double> from = {1, 0, 0.2, 0, 1, -0.1, 0.3, 0.2, 1, -1, 0.5, 0.4};
  std::vector<double> to;
  for (std::size_t k = 0; k < 4; ++k) {
    const double x = from[3 * k], y = from[3 * k + 1];
    to.insert(to.end(), {std::cos(0.5) * x - std::sin(0.5) * y + 0.05,
                         std::sin(0.5) * x + std::cos(0.5) * y - 0.04, from[3 * k + 2] + 0.06});
  }
  for (const bool eigen : {false, true}) {
    std::vector<double> q = {1, 0, 0, 0}, u = {0.5, 0.5, 0.5};
    if (eigen) q = {0, 0, 0, 1};
    Problem problem;
    const Parameters rotation = problem.add_parameters(q, 4);
    const Parameters direction = problem.add_parameters(u, 3);
    const Data a = problem.add_data(from, 3), b = problem.add_data(to, 3);
    for (std::size_t k = 0; k < 4; ++k) {
      const Quat r = eigen ? rotation.eigen_quat(0) : rotation.quat(0);
      problem.add_residual(rotate(r, a.vec3(k)) - b.vec3(k));
      problem.add_residual(0.1 * (direction.vec3(0) - b.vec3(k)));
    }
    problem.set_manifold(rotation, eigen ? Manifold::eigen_quaternion() : Manifold::quaternion());
    problem.set_manifold(direction, Manifold::sphere(3));
    solve(problem, to_rounding());
    const Sensitivity s(problem);
    const Eigen::VectorXd d = some_numbers(24, 3);
    expect_derivative(s, {.problem = problem,
                          .move =
                              [&](double h) {
                                move_data(problem, a, from, d.head(12), h);
                                move_data(problem, b, to, d.tail(12), h);
                              },
                          .dtheta = d});
    const Eigen::VectorXd dx = s.jvp(d);
    EXPECT_NEAR(q[0] * dx[0] + q[1] * dx[1] + q[2] * dx[2] + q[3] * dx[3], 0, 1e-12);
    EXPECT_NEAR(u[0] * dx[4] + u[1] * dx[5] + u[2] * dx[6], 0, 1e-12);
  }
}

/// Points of a chain that wish to be elsewhere, with lengths, outside of a ball.
struct Chain {
  explicit Chain(std::size_t count, bool twice = false) {
    for (std::size_t k = 0; k < count; ++k) {
      const double t = static_cast<double>(k) / static_cast<double>(count - 1);
      const double at[] = {2 * t - 1, 0.5 + 0.1 * std::sin(5 * t), 0.1 * t};
      const double to[] = {2.2 * t - 1.1, 0.1 - 0.2 * t, 0.05};
      x.insert(x.end(), at, at + 3);
      wishes.insert(wishes.end(), to, to + 3);
    }
    const Parameters p = problem.add_parameters(x, 3);
    wish = problem.add_data(wishes, 3);
    length = problem.add_data(std::vector<double>(count - 1, 2.1 / static_cast<double>(count - 1)));
    radius = problem.add_uniform(0.3);
    for (std::size_t k = 0; k < count; ++k) problem.add_residual(p.vec3(k) - wish.vec3(k));
    for (int times = 0; times < (twice ? 2 : 1); ++times) {
      for (std::size_t k = 0; k + 1 < count; ++k)
        problem.add_equality(norm(p.vec3(k + 1) - p.vec3(k)) - length[k], {.label = "link"});
    }
    for (std::size_t k = 0; k < count; ++k)
      problem.add_inequality(norm(p.vec3(k)) - radius.value(), {.label = "outside"});
    options.kkt_tolerance = 1e-13;
    options.constraint_tolerance = 1e-13;
    options.initial_penalty = 10;
    options.max_outer_iterations = 60;
    summary = solve(problem, options);
  }
  Line line(const Eigen::VectorXd& d) {
    return {.problem = problem,
            .move =
                [this, d](double h) {
                  const auto n = static_cast<Eigen::Index>(wishes.size());
                  const auto m = static_cast<Eigen::Index>(length.size());
                  const std::vector<double> lengths(length.size(),
                                                    2.1 / static_cast<double>(length.size()));
                  move_data(problem, wish, wishes, d.head(n), h);
                  move_data(problem, length, lengths, d.segment(n, m), h);
                  problem.set(radius, 0.3 + h * d[n + m]);
                },
            .dtheta = d,
            .options = options};
  }

  std::vector<double> x, wishes;
  Problem problem;
  Data wish, length;
  Uniform radius;
  SolverOptions options = to_rounding();
  Summary summary;
};

TEST(Sensitivity, KeepsActiveConstraints) {
  for (const std::size_t count : {std::size_t{6}, std::size_t{8}}) {
    Chain chain(count);
    const Sensitivity s(chain.problem);
    EXPECT_GT(s.active_constraints(), count - 1) << "some points are on the ball";
    EXPECT_LT(s.active_constraints(), 2 * count - 1) << "some are not";
    expect_derivative(s, chain.line(0.1 * some_numbers(s.size(), 6)));
  }
}

TEST(Sensitivity, DependentConstraintsAreTheSameAsOne) {
  Chain once(6), twice(6, true);
  const Sensitivity a(once.problem), b(twice.problem);
  EXPECT_EQ(b.active_constraints(), a.active_constraints() + 5);
  const Eigen::VectorXd d = some_numbers(a.size(), 8);
  EXPECT_LE((a.jvp(d) - b.jvp(d)).norm(), 1e-7 * a.jvp(d).norm());
  const Eigen::VectorXd v = some_numbers(once.x.size(), 9);
  EXPECT_LE((a.vjp(v) - b.vjp(v)).norm(), 1e-7 * a.vjp(v).norm());
}

TEST(Sensitivity, RedundantConstraintsNeedNotHaveTheSameViolation) {
  std::vector<double> x = {0, 0};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  const Data target = problem.add_data(std::vector<double>{3, 4}, 2);
  problem.add_residual(p.vec2(0) - target.vec2(0));
  problem.add_equality(p.vec2(0).x - 1.0);
  problem.add_equality(3.0 * p.vec2(0).x - 3.0);
  solve(problem);
  x[0] = 1 + 1e-13;  // violations of rounding that no x meets: 1e-13 and 3e-13 less half a bit
  const Sensitivity s(problem);
  const Eigen::VectorXd d = s.jvp(target, std::vector<double>{1, 1});
  EXPECT_NEAR(d[0], 0, 1e-7);
  EXPECT_NEAR(d[1], 1, 1e-7);
}

TEST(Sensitivity, NothingMovesWhereEveryUnknownIsOnABound) {
  std::vector<double> x = {1};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data target = problem.add_data(std::vector<double>{3});
  problem.add_residual(p[0] - target[0]);
  problem.set_bounds(p, 0, 0, 0, 1);
  solve(problem);
  const Sensitivity s(problem);
  EXPECT_EQ(s.active_bounds(), 1u);
  EXPECT_EQ(s.jvp(std::vector<double>{1})[0], 0);
  EXPECT_EQ(s.vjp(std::vector<double>{1})[0], 0);
}

TEST(Sensitivity, ClosedFormOfAProjection) {
  // The point of the circle of radius r that is closest to p: r p / |p|.
  std::vector<double> x = {1, 1};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  const Data target = problem.add_data(std::vector<double>{3, 4}, 2);
  const Uniform r = problem.add_uniform(2);
  problem.add_residual(p.vec2(0) - target.vec2(0));
  problem.add_equality(norm(p.vec2(0)) - r.value());
  solve(problem);
  const Sensitivity s(problem);
  const Eigen::VectorXd by_r = s.jvp(r, 1);
  EXPECT_NEAR(by_r[0], 0.6, 1e-7);
  EXPECT_NEAR(by_r[1], 0.8, 1e-7);
  const Eigen::VectorXd by_p = s.jvp(target, std::vector<double>{1, 0});
  EXPECT_NEAR(by_p[0], 2.0 / 5 * 0.64, 1e-7);
  EXPECT_NEAR(by_p[1], -2.0 / 5 * 0.48, 1e-7);
}

TEST(Sensitivity, CovarianceIsThatOfWhatConstraintsLeaveFree) {
  // Three unknowns with a plane and a half space, which are active, and one that is not.
  Eigen::MatrixXd J(4, 3);
  J << 1, 0.5, 0, 0, 2, -1, 0.3, 0, 1, 1, 1, 1;
  std::vector<double> x = {0, 0, 0};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 3);
  for (int k = 0; k < 4; ++k)
    problem.add_residual(J(k, 0) * p(0, 0) + J(k, 1) * p(0, 1) + J(k, 2) * p(0, 2) - (k + 1.0));
  const Eigen::MatrixXd free = (J.transpose() * J).inverse();
  EXPECT_LE((Covariance(problem).block({p, 0}, {p, 0}) - free).norm(), 1e-12 * free.norm());

  problem.add_equality(p(0, 0) + p(0, 1) - p(0, 2) - 3.0);
  problem.add_inequality(0.1 - p(0, 2));
  problem.add_inequality(p(0, 0) + 100.0);
  const Summary summary = solve(problem);
  ASSERT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  const Covariance covariance(problem);
  EXPECT_EQ(covariance.rank(), 1u);
  const Eigen::Vector3d z(1, -1, 0);  // on the plane, along the half space's boundary
  const Eigen::Matrix3d expected = z * z.transpose() / (J * z).squaredNorm();
  EXPECT_LE((covariance.block({p, 0}, {p, 0}) - expected).norm(), 1e-8 * expected.norm());
  EXPECT_LE((covariance.matrix({{p, 0}}) - expected).norm(), 1e-8 * expected.norm());
}

TEST(Sensitivity, Energies) {
  const std::vector<double> numbers = {0.5, 1.3};
  std::vector<double> x = {0.3, 0.2};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data a = problem.add_data(numbers);
  problem.add_energy(cosh(p[0] - a[0]) + square(p[1]) * square(p[1]) + square(p[0] * p[1] - a[1]));
  SolverOptions options = to_rounding();
  options.method = Method::newton;
  solve(problem, options);
  const Sensitivity s(problem);
  const Eigen::VectorXd d = some_numbers(2, 4);
  expect_derivative(s, {.problem = problem,
                        .move = [&](double h) { move_data(problem, a, numbers, d, h); },
                        .dtheta = d,
                        .options = options});
  EXPECT_THROW(Sensitivity(problem, {.form = SensitivityForm::gauss_newton}), Error);
}

TEST(Sensitivity, NumbersThatShareATopologyWithData) {
  // The same expression reads an array here and a number of its own there.
  const std::vector<double> numbers = {0.5, 1.3, 2};
  std::vector<double> x = {0.3};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data a = problem.add_data(numbers);
  for (std::size_t k = 0; k < 3; ++k) problem.add_residual(exp(p[0]) - a[k]);
  problem.add_residual(exp(p[0]) - 0.25);
  ASSERT_EQ(problem.topology_count(), 1u);
  solve(problem, to_rounding());
  const Sensitivity s(problem);
  // exp(x) is the mean.
  const Eigen::VectorXd back = s.vjp(std::vector<double>{1});
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(back[k], 0.25 / std::exp(x[0]), 1e-12);
}

/// a is the mean of four numbers, whatever b, which nothing reads, and c − d, of which only the
/// difference is determined, are.
TEST(Sensitivity, IsThatOfTheUnknownsThatAreDetermined) {
  const std::vector<double> numbers = {1, 2, 3, 5};
  std::vector<double> x = {0, 5, 1, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1, "x");
  const Data y = problem.add_data(numbers);
  for (std::size_t k = 0; k < 4; ++k) problem.add_residual(p[0] - y[k]);
  problem.add_residual(p[2] - p[3] - y[0]);
  solve(problem, to_rounding());
  for (const SensitivityForm form : {SensitivityForm::full, SensitivityForm::gauss_newton}) {
    const Sensitivity s(problem, {.form = form});
    EXPECT_EQ(s.undetermined(),
              (std::vector<std::string>{"parameter \"x\", block 1", "parameter \"x\", block 2",
                                        "parameter \"x\", block 3"}));
    const Eigen::VectorXd dx = s.jvp(std::vector<double>{1, 0, 0, 0});
    EXPECT_NEAR(dx[0], 0.25, 1e-14);
    EXPECT_EQ(dx[1], 0);
    EXPECT_TRUE(std::isnan(dx[2]) && std::isnan(dx[3]));
    const Eigen::VectorXd back = s.vjp(std::vector<double>{1, 1, 0, 0});
    for (int k = 0; k < 4; ++k) EXPECT_NEAR(back[k], 0.25, 1e-14);
    try {
      s.vjp(std::vector<double>{1, 0, 0, 1});
      ADD_FAILURE();
    } catch (const SensitivityError& error) {
      EXPECT_EQ(error.reason(), SensitivityError::Reason::singular);
      EXPECT_NE(std::string(error.what()).find("parameter \"x\", block 3"), std::string::npos)
          << error.what();
    }
  }
}

SensitivityError::Reason reason_of(Problem& problem) {
  try {
    const Sensitivity s(problem);
  } catch (const SensitivityError& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.reason();
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

/// A fit with its unknown counted from an origin, solved and then moved; `least` is its minimum.
void fit_from(double origin, double other_row, double moved, double least) {
  std::vector<double> x = {origin + 1};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data numbers = problem.add_data(std::vector<double>{2, other_row}, 1);
  problem.add_residual(square(p[0] - origin) - numbers[0]);
  problem.add_residual(p[0] - origin - numbers[1]);
  solve(problem);
  EXPECT_NEAR(x[0] - origin, least, 1e-4);
  EXPECT_NO_THROW(Sensitivity{problem}) << "at the solution";
  x[0] += moved;
  EXPECT_EQ(reason_of(problem), SensitivityError::Reason::unconverged);
}

TEST(Sensitivity, WhatIsNoSolutionDoesNotDependOnTheOrigin) {
  // The minimum of ½ (x² − 2)² + ½ (x − b)² is a root of 2x³ − 3x − b; for b = √2 it is √2.
  const double root = 1.2937955483139811;
  for (const double origin : {0.0, 1e3, 1e6, 1e9}) {
    SCOPED_TRACE(origin);
    for (const double moved : {0.1, 0.01}) fit_from(origin, 0.45, moved, root);
    // All of the cost is what the solve left, until x is moved by more than a share of its own.
    fit_from(origin, std::sqrt(2.0), 0.1, std::sqrt(2.0));
  }
}

TEST(Sensitivity, RefusesWhatHasNoDerivative) {
  Scalar one;
  one.x[0] += 0.1;
  EXPECT_EQ(reason_of(one.problem), SensitivityError::Reason::unconverged);

  std::vector<double> x = {1, 1};
  Problem singular;
  const Parameters p = singular.add_parameters(x, 1, "x");
  singular.add_residual(p[0] + p[1] - 1.0);
  solve(singular, to_rounding());
  EXPECT_EQ(reason_of(singular), SensitivityError::Reason::singular);

  // ½ (x² − 1)² has the second derivative 6x² − 2 < 0 at the start 0.1.
  Problem unsolved;
  std::vector<double> start = {0.1};
  const Parameters u = unsolved.add_parameters(start);
  unsolved.add_residual(u[0] * u[0] - 1.0);
  try {
    const Sensitivity s(unsolved);
    ADD_FAILURE();
  } catch (const SensitivityError& error) {
    EXPECT_NE(std::string(error.what()).find("or solve first"), std::string::npos) << error.what();
  }

  Problem constrained;
  std::vector<double> z = {1};
  const Parameters r = constrained.add_parameters(z);
  constrained.add_residual(r[0] - 2.0);
  constrained.add_equality(r[0] - 1.0);
  EXPECT_EQ(reason_of(constrained), SensitivityError::Reason::unconverged) << "never solved";
}

/// min f(x − a) + ½ |x − b|² at the solution x = a = b.
struct Meeting {
  explicit Meeting(const std::function<void(Problem&, const Vec2&)>& add_term) {
    const Parameters p = problem.add_parameters(x, 2);
    a = problem.add_data(x, 2, "a");
    b = problem.add_data(x, 2, "b");
    add_term(problem, p.vec2(0) - a.vec2(0));
    problem.add_energy(0.5 * squared_norm(p.vec2(0) - b.vec2(0)));
  }
  std::vector<double> x = {1, 2};
  Problem problem;
  Data a, b;
};

TEST(Sensitivity, FollowsSmoothFunctionsOfLengthsThatAreZero) {
  const double root2 = std::sqrt(2.0);
  const struct {
    const char* name;
    std::function<void(Problem&, const Vec2&)> add;
    double by_a;  // f'' / (f'' + 1)
  } rows[] = {
      {"square of norm", [](Problem& p, const Vec2& d) { p.add_energy(square(norm(d))); }, 2. / 3},
      {"cosine", [](Problem& p, const Vec2& d) { p.add_energy(2.0 - 2.0 * cos(norm(d))); }, 2. / 3},
      {"norm", [=](Problem& p, const Vec2& d) { p.add_residual(root2 * norm(d)); }, 2. / 3},
      {"hypot", [=](Problem& p, const Vec2& d) { p.add_residual(root2 * hypot(d.x, d.y)); },
       2. / 3},
      {"norm under a loss",
       [=](Problem& p, const Vec2& d) { p.add_residual(root2 * norm(d), {.loss = cauchy(1)}); },
       2. / 3},
      {"softplus by hand",
       [](Problem& p, const Vec2& d) {
         for (const Value& z : {d.x, d.y})
           p.add_energy(max(z, literal(0.0)) + log1p(exp(-abs(z))) - 0.5 * z);
       },
       0.2}};
  for (const auto& row : rows) {
    Meeting at(row.add);
    const Sensitivity s(at.problem);
    const Eigen::VectorXd by_a = s.jvp(at.a, std::vector<double>{1, 0});
    const Eigen::VectorXd by_b = s.jvp(at.b, std::vector<double>{1, 0});
    EXPECT_NEAR(by_a[0], row.by_a, 1e-14) << row.name;
    EXPECT_NEAR(by_b[0], 1 - row.by_a, 1e-14) << row.name;
    EXPECT_NEAR(by_a[1], 0, 1e-14) << row.name;
  }
}

TEST(Sensitivity, RefusesKinks) {
  const struct {
    std::function<void(Problem&, const Vec2&)> add;
    const char* text;
  } rows[] = {
      {[](Problem& p, const Vec2& d) { p.add_energy(norm(d)); }, "the length sqrt is 0"},
      {[](Problem& p, const Vec2& d) { p.add_energy(hypot(d.x, d.y)); }, "the length hypot is 0"},
      {[](Problem& p, const Vec2& d) { p.add_energy(abs(d.y)); }, "abs(0)"},
      {[](Problem& p, const Vec2& d) { p.add_energy(max(d.x, -d.x)); }, "max of equal operands"}};
  for (const auto& row : rows) {
    Meeting at(row.add);
    try {
      const Sensitivity s(at.problem);
      ADD_FAILURE() << row.text;
    } catch (const SensitivityError& error) {
      EXPECT_EQ(error.reason(), SensitivityError::Reason::kink) << error.what();
      const std::string text = error.what();
      EXPECT_NE(text.find("has no second derivative: " + std::string(row.text)), text.npos) << text;
    }
  }
}

TEST(Sensitivity, RefusesOtherProblemsAndSizes) {
  Scalar one, other;
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(code_of([&] { Sensitivity(one.problem, {other.numbers}); }), ErrorCode::WrongProblem);
  EXPECT_EQ(code_of([&] { Sensitivity(one.problem, {other.weight}); }), ErrorCode::WrongProblem);
  EXPECT_EQ(code_of([&] { Sensitivity(one.problem, {Data()}); }), ErrorCode::WrongProblem);
  EXPECT_EQ(code_of([&] {
              Sensitivity(one.problem, {one.weight, one.weight});
            }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { Sensitivity(one.problem, {.convergence_tolerance = 0}); }),
            ErrorCode::InvalidArgument);
  const Sensitivity s(one.problem);
  EXPECT_EQ(code_of([&] { s.jvp(std::vector<double>{1}); }), ErrorCode::Shape);
  EXPECT_EQ(code_of([&] { s.vjp(std::vector<double>{1, 2}); }), ErrorCode::Shape);
  EXPECT_EQ(code_of([&] { s.vjp(other.weight, std::vector<double>{1}); }), ErrorCode::WrongProblem);
}

}  // namespace
}  // namespace topograd
