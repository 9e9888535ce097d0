// Bounds, manifolds and host residuals in whole solves: analytic answers, Ceres' rules, errors by
// text.
#include "../../../frontend/vec.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace topograd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

SolverOptions exact() {
  return {.backend = Backend::cpu,
          .max_iterations = 200,
          .function_tolerance = 1e-15,
          .gradient_tolerance = 1e-10,
          .parameter_tolerance = 1e-14};
}

void add_rosenbrock(Problem& problem, const Parameters& x) {
  problem.add_residual(10.0 * (x[1] - x[0] * x[0]));
  problem.add_residual(1.0 - x[0]);
}

TEST(Bounds, RosenbrockEndsOnTheBoundThatItMeets) {
  // Minima along the bounds, found from the stationary points of the restricted function.
  const struct {
    const char* name;
    double lower[2], upper[2], start[2], expected[2];
  } rows[] = {{"free", {-kInfinity, -kInfinity}, {kInfinity, kInfinity}, {-1.2, 1}, {1, 1}},
              {"x0 <= 0.5", {-kInfinity, -kInfinity}, {0.5, kInfinity}, {-1.2, 1}, {0.5, 0.25}},
              {"x0 >= 1.5", {1.5, -kInfinity}, {kInfinity, kInfinity}, {2, 1}, {1.5, 2.25}},
              {"both", {-2, -2}, {0.8, 0.5}, {-1.2, 0.4}, {0.70906245, 0.5}}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<double> v = {row.start[0], row.start[1]};
    Problem problem;
    const Parameters x = problem.add_parameters(v);
    add_rosenbrock(problem, x);
    for (int k = 0; k < 2; ++k)
      problem.set_bounds(x, static_cast<std::size_t>(k), 0, row.lower[k], row.upper[k]);
    const Summary summary = solve(problem, exact());
    double expected = row.expected[0];
    if (row.upper[1] == 0.5) {
      // d/dx0 of 100 (0.5 − x0²)² + (1 − x0)² = 0 by Newton's method.
      for (int k = 0; k < 20; ++k) {
        const double f = -400 * expected * (0.5 - expected * expected) - 2 * (1 - expected);
        expected -= f / (-200 + 1200 * expected * expected + 2);
      }
    }
    EXPECT_NEAR(v[0], expected, 1e-7) << summary.full_report();
    EXPECT_NEAR(v[1], row.expected[1], 1e-7);
    EXPECT_LE(v[0], row.upper[0]);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  }
}

TEST(Bounds, TheReportSaysWhereStepsAreMade) {
  std::vector<double> v = {0.5, 0.5};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  add_rosenbrock(problem, x);
  problem.set_upper_bound(x, 0, 0, 2);
  const Summary summary = solve(problem, exact());
  EXPECT_EQ(summary.linear_solver_note, "steps on the host: bounds");
  EXPECT_EQ(summary.linear_solver, LinearSolver::cholesky);
}

TEST(Manifolds, AveragesOfQuaternionsStayOnTheSphere) {
  // Two rotations about one axis: the mean of squares is the rotation between them.
  for (const bool traced : {false, true}) {
    std::vector<double> q = {1, 0, 0, 0};
    Problem problem;
    const Parameters x = problem.add_parameters(q, 4);
    for (const double angle : {0.3, 1.1}) {
      const double goal[4] = {std::cos(angle / 2), 0, std::sin(angle / 2), 0};
      std::vector<Value> rows;
      for (int k = 0; k < 4; ++k) rows.push_back(x(0, k) - goal[k]);
      problem.add_residual(rows);
    }
    const Manifold by_expression =
        Manifold::custom(4, 3, [](std::span<const Value> p, std::span<const Value> d) {
          // (1, d) times p, normalised: another chart with the same tangents.
          const std::vector<Value> r = {p[0] - d[0] * p[1] - d[1] * p[2] - d[2] * p[3],
                                        p[1] + d[0] * p[0] + d[1] * p[3] - d[2] * p[2],
                                        p[2] - d[0] * p[3] + d[1] * p[0] + d[2] * p[1],
                                        p[3] + d[0] * p[2] - d[1] * p[1] + d[2] * p[0]};
          const Value length = sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2] + r[3] * r[3]);
          return std::vector<Value>{r[0] / length, r[1] / length, r[2] / length, r[3] / length};
        });
    problem.set_manifold(x, 0, traced ? by_expression : Manifold::quaternion());
    const Summary summary = solve(problem, exact());
    EXPECT_EQ(summary.unknowns, 3u);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
    EXPECT_NEAR(q[0], std::cos(0.35), 1e-7);
    EXPECT_NEAR(q[2], std::sin(0.35), 1e-7);
    EXPECT_NEAR(q[1], 0, 1e-7);
    EXPECT_NEAR(q[3], 0, 1e-7);
  }
}

TEST(Manifolds, ThePointOfASphereNearestToAnother) {
  std::vector<double> points = {2, 0, 0, 0, 0, 3};
  const double goal[3] = {1, 2, -2};
  Problem problem;
  const Parameters x = problem.add_parameters(points, 3);
  for (std::size_t b = 0; b < 2; ++b) {
    const Vec3 p = x.vec3(b);
    problem.add_residual({p.x - goal[0], p.y - goal[1], p.z - goal[2]});
  }
  problem.set_manifold(x, Manifold::sphere(3));
  solve(problem, exact());
  for (int b = 0; b < 2; ++b) {
    const double radius = b == 0 ? 2 : 3;
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(points[3 * b + k], radius * goal[k] / 3, 1e-7);
  }
}

TEST(Manifolds, SubsetsHoldTheirCoordinates) {
  std::vector<double> v = {1, 2, 3};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  problem.add_residual({x(0, 0) - 5.0, x(0, 1) - 5.0, x(0, 2) + x(0, 1) - 5.0});
  problem.set_manifold(x, 0, Manifold::subset(3, {1}));
  solve(problem, exact());
  EXPECT_NEAR(v[0], 5, 1e-7);
  EXPECT_EQ(v[1], 2);
  EXPECT_NEAR(v[2], 3, 1e-7);
}

/// Powell's singular function with hand-written derivatives, or only the requested rows.
class Powell final : public HostResidual {
 public:
  int rows() const override { return 4; }
  bool evaluate(const double* const* blocks, double* r, double** jacobians) const override {
    const double* x = blocks[0];
    const double d = x[1] - 2 * x[2], e = x[0] - x[3];
    const double s5 = std::sqrt(5.0), s10 = std::sqrt(10.0);
    r[0] = x[0] + 10 * x[1];
    r[1] = s5 * (x[2] - x[3]);
    r[2] = d * d;
    r[3] = s10 * e * e;
    if (jacobians == nullptr || jacobians[0] == nullptr) return true;
    const double J[4][4] = {
        {1, 10, 0, 0}, {0, 0, s5, -s5}, {0, 2 * d, -4 * d, 0}, {2 * s10 * e, 0, 0, -2 * s10 * e}};
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 4; ++k) jacobians[0][4 * i + k] = J[i][k];
    return true;
  }
};

void add_powell(Problem& problem, const Parameters& x) {
  const Value d = x(0, 1) - 2.0 * x(0, 2), e = x(0, 0) - x(0, 3);
  problem.add_residual({x(0, 0) + 10.0 * x(0, 1), std::sqrt(5.0) * (x(0, 2) - x(0, 3)), d * d,
                        std::sqrt(10.0) * e * e});
}

TEST(HostResiduals, EvaluateAsTracedOnesDo) {
  std::vector<double> a = {3, -1, 0, 1}, b = a;
  Problem traced, host;
  const Parameters x = traced.add_parameters(a, 4), y = host.add_parameters(b, 4);
  add_powell(traced, x);
  traced.add_residual(x(0, 0) * x(0, 1), {.loss = huber(0.5)});
  traced.set_constant(x, 0, 0b0100);
  host.add_residual(std::make_shared<Powell>(), {{y, 0}});
  host.add_residual(y(0, 0) * y(0, 1), {.loss = huber(0.5)});
  host.set_constant(y, 0, 0b0100);
  const SolverOptions options = {.backend = Backend::cpu};
  Evaluator expected(traced, options), actual(host, options);
  EXPECT_NEAR(actual.cost(), expected.cost(), 1e-13 * expected.cost());
  EXPECT_LE((actual.residuals() - expected.residuals()).norm(), 1e-13);
  EXPECT_LE((actual.gradient() - expected.gradient()).norm(), 1e-11);
  EXPECT_LE((actual.jacobian() - expected.jacobian()).norm(), 1e-13);
  EXPECT_LE((actual.jtj() - expected.jtj()).norm(), 1e-11);
  const Eigen::VectorXd p = Eigen::VectorXd::LinSpaced(4, 1, 2), s = Eigen::VectorXd::Ones(5);
  EXPECT_LE((actual.jvp(p) - expected.jvp(p)).norm(), 1e-12);
  EXPECT_LE((actual.vjp(s) - expected.vjp(s)).norm(), 1e-12);
  EXPECT_LE((actual.jtjp(p) - expected.jtjp(p)).norm(), 1e-10);
}

/// a and unit (b − 2).
class TwoUnits final : public HostResidual {
 public:
  explicit TwoUnits(double unit) : unit_(unit) {}
  int rows() const override { return 2; }
  bool evaluate(const double* const* blocks, double* r, double** jacobians) const override {
    r[0] = blocks[0][0];
    r[1] = unit_ * (blocks[0][1] - 2);
    if (jacobians == nullptr || jacobians[0] == nullptr) return true;
    const double J[4] = {1, 0, 0, unit_};
    std::copy_n(J, 4, jacobians[0]);
    return true;
  }

 private:
  double unit_;
};

// Without a scaling of columns the damping holds b, and the last step, which has none, moves it.
TEST(HostResiduals, StepsWithoutDampingKnowColumnsOfAnyUnit) {
  for (const double unit : {1.0, 1e-6, 1e-18}) {
    std::vector<double> x = {0, 0};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 2);
    problem.add_residual(std::make_shared<TwoUnits>(unit), {{p, 0}});
    SolverOptions options = {.backend = Backend::cpu};
    options.jacobi_scaling = false;
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_NEAR(x[1], 2, 1e-6) << unit << ": " << summary.message;
  }
}

TEST(HostResiduals, LossesCorrectThemToo) {
  const Loss losses[] = {cauchy(0.5), tolerant(2, 0.5), Loss::host([](double s, double* rho) {
                           rho[0] = std::log1p(s);
                           rho[1] = 1 / (1 + s);
                           rho[2] = -rho[1] * rho[1];
                         })};
  for (const Loss& loss : losses) {
    SCOPED_TRACE(loss.describe());
    std::vector<double> a = {3, -1, 0.5, 1}, b = a;
    Problem traced, host;
    const Parameters x = traced.add_parameters(a, 4), y = host.add_parameters(b, 4);
    const Value d = x(0, 1) - 2.0 * x(0, 2), e = x(0, 0) - x(0, 3);
    traced.add_residual({x(0, 0) + 10.0 * x(0, 1), std::sqrt(5.0) * (x(0, 2) - x(0, 3)), d * d,
                         std::sqrt(10.0) * e * e},
                        {.loss = loss.is_host() ? cauchy(1) : loss});
    const Residual block = host.add_residual(std::make_shared<Powell>(), {{y, 0}});
    host.set_loss(block, loss);
    Evaluator expected(traced, {.backend = Backend::cpu}), actual(host, {.backend = Backend::cpu});
    EXPECT_NEAR(actual.cost(), expected.cost(), 1e-13 * expected.cost());
    EXPECT_LE((actual.residuals() - expected.residuals()).norm(), 1e-13);
    EXPECT_LE((actual.jacobian() - expected.jacobian()).norm(), 1e-12);
  }
}

TEST(HostResiduals, SolveBesideTracedOnes) {
  std::vector<double> v = {3, -1, 0, 1}, w = {7};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 4), y = problem.add_parameters(w);
  problem.add_residual(std::make_shared<Powell>(), {{x, 0}}, {.label = "powell"});
  problem.add_residual(y[0] - 2.0 - x(0, 0));
  SolverOptions options = exact();
  options.gradient_tolerance = 1e-14;
  options.max_iterations = 100;
  const Summary summary = solve(problem, options);
  EXPECT_EQ(summary.host_residuals, 1u);
  EXPECT_EQ(summary.linear_solver_note, "steps on the host: residuals on the host");
  for (const double value : v) EXPECT_NEAR(value, 0, 1e-3);
  EXPECT_NEAR(w[0], 2 + v[0], 1e-7);
  EXPECT_LT(summary.final_cost, 1e-12);
}

/// r = log x, and no value for x <= 0.
/// a t + sin(b₁ t) / b₀, less t + sin(0.8 t), at one time of many: they may be one computation.
class Wave final : public HostResidual {
 public:
  Wave(int row, bool shares, int& calls) : row_(row), shares_(shares), calls_(calls) {}
  int rows() const override { return 1; }
  bool evaluate(const double* const* blocks, double* r, double** jacobians) const override {
    return evaluate_run(1, blocks, r, jacobians);
  }
  Place place() const override {
    return {shares_ ? &calls_ : nullptr, static_cast<std::size_t>(row_)};
  }
  bool evaluate_run(std::size_t rows, const double* const* blocks, double* r,
                    double** jacobians) const override {
    ++calls_;
    const double a = blocks[0][0], *b = blocks[1];
    for (std::size_t k = 0; k < rows; ++k) {
      const double t = 0.1 * static_cast<double>(static_cast<std::size_t>(row_) + k);
      r[k] = a * t + std::sin(b[1] * t) / b[0] - t - std::sin(0.8 * t);
      if (jacobians == nullptr) continue;
      if (jacobians[0] != nullptr) jacobians[0][k] = t;
      if (jacobians[1] == nullptr) continue;
      jacobians[1][2 * k] = -std::sin(b[1] * t) / (b[0] * b[0]);
      jacobians[1][2 * k + 1] = t * std::cos(b[1] * t) / b[0];
    }
    return true;
  }

 private:
  int row_;
  bool shares_;
  int& calls_;
};

// Neighbours in a computation are evaluated by one call, whatever losses they have; a block that
// was removed parts them.
TEST(HostResiduals, ShareTheCallsOfAComputation) {
  constexpr int kRows = 60;
  for (const bool removes : {false, true}) {
    SCOPED_TRACE(removes);
    int calls[2] = {};
    double costs[2] = {};
    Eigen::VectorXd gradients[2], solutions[2];
    Eigen::MatrixXd jacobians[2];
    for (int shares = 0; shares < 2; ++shares) {
      std::vector<double> v = {0.8}, w = {1.2, 0.9};
      Problem problem;
      const Parameters a = problem.add_parameters(v), b = problem.add_parameters(w, 2);
      std::vector<Residual> blocks;
      for (int k = 0; k < kRows; ++k)
        blocks.push_back(problem.add_residual(std::make_shared<Wave>(k, shares == 1, calls[shares]),
                                              {{a, 0}, {b, 0}},
                                              {.loss = k % 3 == 0 ? huber(0.1) : Loss()}));
      if (removes) problem.remove(blocks[20]);
      Evaluator evaluator(problem, {.backend = Backend::cpu});
      calls[shares] = 0;
      gradients[shares] = evaluator.gradient();
      // The last block has taken the place of the one that was removed.
      const int apart = removes ? kRows - 1 : kRows, together = removes ? 3 : 1;
      EXPECT_EQ(calls[shares], shares == 1 ? together : apart);
      costs[shares] = evaluator.cost();
      jacobians[shares] = evaluator.jacobian();
      EXPECT_EQ(solve(problem, exact()).termination, Termination::CONVERGENCE);
      solutions[shares] = Eigen::Vector3d(v[0], w[0], w[1]);
    }
    EXPECT_EQ(costs[0], costs[1]);
    EXPECT_EQ(gradients[0], gradients[1]);
    EXPECT_EQ(jacobians[0], jacobians[1]);
    EXPECT_LT((solutions[0] - solutions[1]).norm(), 1e-9);
  }
}

class Logarithm final : public HostResidual {
 public:
  int rows() const override { return 1; }
  bool evaluate(const double* const* blocks, double* r, double** jacobians) const override {
    if (blocks[0][0] <= 0) return false;
    r[0] = std::log(blocks[0][0]);
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = 1 / blocks[0][0];
    return true;
  }
};

TEST(HostResiduals, AloneAndRefused) {
  std::vector<double> v = {20};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  problem.add_residual(std::make_shared<Logarithm>(), {{x, 0}}, {.label = "log"});
  // The first Newton step leads to 20 (1 − log 20) < 0, where there is no value.
  const Summary summary = solve(problem, exact());
  EXPECT_NEAR(v[0], 1, 1e-7);
  EXPECT_GT(summary.num_nonfinite_steps, 0);
  EXPECT_EQ(summary.why, "cpu: every residual runs on the host");
}

/// Two rows x - 3, of which only the first is written, or its derivative.
class Forgetful final : public HostResidual {
 public:
  explicit Forgetful(bool forgets_derivative) : forgets_derivative_(forgets_derivative) {}
  int rows() const override { return 2; }
  bool evaluate(const double* const* blocks, double* r, double** jacobians) const override {
    r[0] = blocks[0][0] - 3;
    if (forgets_derivative_) r[1] = r[0];
    if (jacobians != nullptr && jacobians[0] != nullptr) {
      jacobians[0][0] = 1;
      if (!forgets_derivative_) jacobians[0][1] = 1;
    }
    return true;
  }

 private:
  bool forgets_derivative_;
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostResiduals, WhatIsNotWrittenIsNamed) {
  for (const bool derivative : {false, true}) {
    std::vector<double> v = {1};
    Problem problem;
    const Parameters x = problem.add_parameters(v);
    problem.add_residual(std::make_shared<Forgetful>(derivative), {{x, 0}}, {.label = "half"});
    const std::string message = error_of([&] { solve(problem, exact()); });
    EXPECT_NE(message.find(derivative ? "a derivative of host residual \"half\" #0 is not written"
                                      : "host residual \"half\" #0 is not written in row 1"),
              std::string::npos)
        << message;
    EXPECT_EQ(v[0], 1);
  }
}

TEST(Modelling, AStartOffItsManifoldIsAnError) {
  struct Row {
    Manifold manifold;
    std::vector<double> x;
    const char* text;
  };
  const Manifold unit = Manifold::product(Manifold::euclidean(1), Manifold::sphere(2));
  const auto plus = [](std::span<const Value> x, std::span<const Value> delta) {
    return std::vector<Value>{x[0] + delta[0] / x[0]};
  };
  const char* const quaternion = "a quaternion of length 0 is no rotation; the identity is w = 1";
  const char* const sphere = "there is no sphere about 0 through 0; start from any other point";
  const Row rows[] = {
      {Manifold::sphere(3), {0, 0, 0}, "(0, 0, 0), which is no point of its manifold sphere: "},
      {Manifold::quaternion(),
       {0, 0, 0, 0},
       "(0, 0, 0, 0), which is no point of its manifold quaternion: "},
      {Manifold::eigen_quaternion(),
       {0, 0, 0, 0},
       "(0, 0, 0, 0), which is no point of its manifold eigen_quaternion: "},
      {unit,
       {3, 0, 0},
       "(3, 0, 0), which is no point of its manifold product(euclidean, sphere): part sphere: "},
      {Manifold::custom(1, 1, plus, "pole"), {0}, "(0), which is no point of its manifold pole: "}};
  for (const Row& row : rows) {
    for (const Method method : {Method::levenberg_marquardt, Method::lbfgs}) {
      std::vector<double> v = row.x;
      Problem problem;
      const Parameters x = problem.add_parameters(v, row.manifold.ambient_size());
      Value sum = x(0, 0) - 1.0;
      for (int k = 1; k < x.width(); ++k) sum = sum + 2.0 * x(0, k);
      problem.add_residual(sum);
      problem.set_manifold(x, row.manifold);
      SolverOptions options = exact();
      options.method = method;
      const std::string name = row.manifold.name();
      const std::string why = name == "pole" ? "the derivative of its plus is not finite there"
                              : name.find("quaternion") != name.npos ? quaternion
                                                                     : sphere;
      EXPECT_EQ(error_of([&] { solve(problem, options); }),
                std::string("solve: parameter array 0, block 0 starts at ") + row.text + why);
      EXPECT_EQ(v, row.x);
      // A fixed block needs no manifold.
      problem.set_constant(x, 0);
      std::vector<double> w = {5};
      const Parameters y = problem.add_parameters(w);
      problem.add_residual(y[0] - 2.0);
      EXPECT_EQ(error_of([&] { solve(problem, options); }), "no error") << name;
      EXPECT_NEAR(w[0], 2, 1e-6);
    }
  }
}

TEST(Modelling, AContainerThatGrewIsAnErrorOfTheSolve) {
  std::vector<double> v = {1, 2};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  problem.add_residual({x[0] - 3.0, x[1] - 4.0});
  v.reserve(v.capacity() + 1);
  const std::string text = error_of([&] { solve(problem, exact()); });
  EXPECT_NE(text.find("parameter array 0: the container that add_parameters was given has changed"),
            std::string::npos)
      << text;
  EXPECT_EQ(v, (std::vector<double>{1, 2}));
}

TEST(Modelling, ErrorsNameTheCulprit) {
  std::vector<double> v = {-1, 2, 0, 0, 0, 1};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 2);
  problem.add_residual({x(0, 0) * x(0, 1), x(1, 0), x(2, 1)});
  const auto run = [&] { solve(problem, exact()); };
  EXPECT_EQ(error_of([&] { problem.set_bounds(x, 1, 2, 0, 1); }),
            "set_lower_bound: coordinate 2 is out of range (the block has 2)");
  EXPECT_EQ(error_of([&] { problem.set_bounds(x, 1, 0, NAN, 1); }),
            "set_lower_bound: the bound is nan");
  EXPECT_EQ(error_of([&] { problem.set_manifold(x, 0, Manifold::quaternion()); }),
            "set_manifold: quaternion is a manifold of blocks of 4, the array's have 2");
  problem.set_bounds(x, 1, 0, 3, 2);
  EXPECT_EQ(error_of(run),
            "solve: parameter array 0, block 1, coordinate 0 has infeasible bounds [3, 2]; "
            "expected lower < upper (hold it with set_constant)");
  problem.set_bounds(x, 1, 0, 1, 2);
  EXPECT_EQ(error_of(run),
            "solve: parameter array 0, block 1, coordinate 0 starts at 0, outside its bounds "
            "[1, 2]");
  problem.set_bounds(x, 1, 0, -1, 2);
  problem.set_manifold(x, 2, Manifold::sphere(2));
  problem.set_constant(x, 2, 1);
  EXPECT_EQ(error_of(run),
            "solve: parameter array 0, block 2 is on the manifold sphere and has single constant "
            "coordinates; use a product with a subset manifold");
  problem.set_variable(x, 2);
  problem.set_manifold(x, 2, Manifold(nullptr));
  EXPECT_EQ(error_of([&] {
              problem.add_residual(std::make_shared<Logarithm>(),
                                   {ParameterBlock{x, 0}, ParameterBlock{x, 0}});
            }),
            "add_residual: block 0 is named twice");
  problem.add_residual(std::make_shared<Logarithm>(), {{x, 0}}, {.label = "log"});
  EXPECT_EQ(error_of(run),
            "solve: host residual \"log\" #0 has no value: its evaluate() returned false");
  SolverOptions options = exact();
  options.method = Method::adam;
  EXPECT_EQ(error_of([&] { solve(problem, options); }),
            "solve: adam knows no bounds; expected one of levenberg_marquardt, gauss_newton, "
            "dogleg, lbfgs, newton");
}

TEST(Modelling, BoundsThatWereOpenedAgainAreNone) {
  std::vector<double> values = {3, -2};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  problem.add_residual({x[0] - 1.0, x[0] * x[1] + 1.0});
  problem.set_bounds(x, 0, 0, 2, 4);
  Solver solver(problem, exact());
  const Summary bounded = solver.solve();
  EXPECT_EQ(bounded.linear_solver_note, "steps on the host: bounds");
  EXPECT_EQ(values[0], 2);
  problem.set_bounds(x, 0, 0, -INFINITY, INFINITY);
  EXPECT_EQ(solver.solve().linear_solver_note.find("bounds"), std::string::npos);
  EXPECT_NEAR(values[0], 1, 1e-9);
  values = {3, -2};
  SolverOptions options = exact();
  options.method = Method::lbfgs;
  solve(problem, options);
  EXPECT_NEAR(values[0], 1, 1e-5);
  EXPECT_NEAR(values[1], -1, 1e-5);
}

/// Energies of a vector of length 0, and the factor c of their Hessian c I there.
struct LengthRow {
  const char* name;
  std::function<Value(const Vec3&)> energy;
  double curvature;
};

const LengthRow kEvenRows[] = {
    {"square", [](const Vec3& v) { return square(norm(v)); }, 2},
    {"product", [](const Vec3& v) { return norm(v) * norm(v); }, 2},
    {"pow", [](const Vec3& v) { return pow(norm(v), 2.0); }, 2},
    {"hypot", [](const Vec3& v) { return square(hypot(hypot(v.x, v.y), v.z)); }, 2},
    {"plain root", [](const Vec3& v) { return square(sqrt(dot(v, v))); }, 2},
    {"cube", [](const Vec3& v) { return cube(norm(v)); }, 0},
    {"cosine", [](const Vec3& v) { return 1.0 - cos(norm(v)); }, 1},
    {"exponential", [](const Vec3& v) { return exp(-square(norm(v))); }, -2},
    {"logarithm", [](const Vec3& v) { return log1p(square(norm(v))); }, 2},
    {"hyperbolic", [](const Vec3& v) { return cosh(norm(v)); }, 1},
    {"sine", [](const Vec3& v) { return norm(v) * sin(norm(v)); }, 2},
    {"rest length 0", [](const Vec3& v) { return square(norm(v) - 0.0); }, 2},
    {"magnitudes",
     [](const Vec3& v) { return square(abs(v.x)) + v.y * v.y + cosh(abs(v.z)) * 2.0; }, 2},
    {"halves",
     [](const Vec3& v) {
       Value sum = literal(0.0);
       for (const Value& z : {v.x, v.y, v.z}) sum += square(max(z, 0.0)) + square(min(z, 0.0));
       return sum;
     },
     2}};

TEST(Lengths, EvenFunctionsHaveTheirHessianAtZero) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    for (const LengthRow& row : kEvenRows) {
      std::vector<double> x = {0, 0, 0};
      Problem problem;
      const Parameters p = problem.add_parameters(x, 3);
      problem.add_energy(row.energy(p.vec3(0)));
      Evaluator at(problem, {.precision = precision});
      const Eigen::MatrixXd H = at.hessian();
      EXPECT_LE((H - row.curvature * Eigen::Matrix3d::Identity()).cwiseAbs().maxCoeff(), 1e-6)
          << row.name << "\n"
          << H;
      const Eigen::VectorXd q = at.hvp(std::vector<double>{0.5, -1, 2});
      EXPECT_LE((q - row.curvature * Eigen::Vector3d(0.5, -1, 2)).cwiseAbs().maxCoeff(), 1e-6)
          << row.name << "\n"
          << q;
    }
  }
}

TEST(Lengths, ThatAreZeroHaveNoSecondDerivative) {
  const struct {
    std::function<Value(const Vec3&)> energy;
    const char* op;
  } rows[] = {{[](const Vec3& v) { return norm(v); }, "sqrt"},
              {[](const Vec3& v) { return square(norm(v) - 1.0); }, "sqrt"},
              {[](const Vec3& v) { return exp(hypot(v.x, v.y)) + square(v.z); }, "hypot"}};
  for (const auto& row : rows) {
    std::vector<double> x = {0, 0, 0, 0, 2, 1};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 3);
    problem.add_energy(row.energy(p.vec3(1)), {.label = "smooth"});
    problem.add_energy(row.energy(p.vec3(0)), {.label = "kinked"});
    Evaluator at(problem);
    const std::vector<double> direction(6, 1), away = {0.6, 0, 0.8, 0, 1, 1};
    for (const bool product : {false, true}) {
      try {
        product ? (void)at.hvp(direction) : (void)at.hessian();
        ADD_FAILURE() << row.op;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::NonFinite);
        const std::string text = error.what();
        EXPECT_NE(text.find("evaluator: energy \"kinked\" #"), text.npos) << text;
        const std::string at_length = std::string("the length ") + row.op + " is 0";
        EXPECT_NE(text.find("has no second derivative: " + at_length), text.npos) << text;
      }
    }
    EXPECT_TRUE(Eigen::MatrixXd(at.hessian({.project_psd = true})).allFinite());
    EXPECT_TRUE(Eigen::MatrixXd(at.hessian(away)).allFinite());
    EXPECT_TRUE(at.hvp(away, direction).allFinite());
    problem.set_constant(p, 0);  // no unknown is at the kink
    EXPECT_TRUE(Eigen::MatrixXd(at.hessian()).allFinite());
  }
}

TEST(Lengths, NewtonGoesOnFromKinks) {
  // min λ |v| + ½ |v − c|²: v = (1 − λ / |c|) c, here from the kink.
  for (const LinearSolver linear : {LinearSolver::cholesky, LinearSolver::pcg}) {
    std::vector<double> x = {0, 0, 0};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 3);
    problem.add_energy(0.5 * norm(p.vec3(0)) + 0.5 * squared_norm(p.vec3(0) - Vec3{2., -1., 2.}));
    SolverOptions options = exact();
    options.method = Method::newton;
    options.linear_solver = linear;
    EXPECT_TRUE(solve(problem, options).is_solution_usable());
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(x[k], (k == 1 ? -1. : 2.) * (1 - 0.5 / 3), 1e-8);
  }
}

}  // namespace
}  // namespace topograd
