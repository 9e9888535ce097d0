// Residual blocks with long expressions: derivatives by hand, numbers that change, handles, and the
// way back to kernels.
#include "../../../frontend/inspect/problem_use.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/sensitivity.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/summary.hpp"

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace topograd {
namespace {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

const SolverOptions kExact{.backend = Backend::cpu,
                           .max_iterations = 100,
                           .function_tolerance = 1e-15,
                           .gradient_tolerance = 1e-12,
                           .parameter_tolerance = 1e-14};

/// Temperatures of two bodies by explicit Euler steps, and what was measured of the first one.
struct Cooling {
  int steps = 400;
  double h = 0.01;
  std::vector<double> measured;

  double power(int k) const { return k < steps / 3 ? 5 : 1; }

  template <class T>
  std::vector<T> temperatures(const T& capacity, const T& coupling, const T& loss, T b) const {
    std::vector<T> out;
    T a = b;
    for (int k = 0; k < steps; ++k) {
      const T flow = (a - b) * coupling;
      a = a + h * (power(k) - flow) / capacity;
      b = b + h * (flow - loss * b);
      out.push_back(a);
    }
    return out;
  }

  /// Σ r_k ∇a_k by the unknowns v, from a = b = 1, by a hand-written adjoint.
  Vector gradient(const std::vector<double>& v, const Vector& r) const {
    std::vector<double> a = {1}, b = {1};
    for (int k = 0; k < steps; ++k) {
      const double flow = (a[k] - b[k]) * v[1];
      a.push_back(a[k] + h * (power(k) - flow) / v[0]);
      b.push_back(b[k] + h * (flow - v[2] * b[k]));
    }
    Vector out = Vector::Zero(3);
    double of_a = 0, of_b = 0;  // adjoints of the states after step k
    for (int k = steps; k-- > 0;) {
      of_a += r[k];
      const double flow = (a[k] - b[k]) * v[1];
      const double of_flow = h * (of_b - of_a / v[0]);
      out[0] -= of_a * h * (power(k) - flow) / (v[0] * v[0]);
      out[1] += of_flow * (a[k] - b[k]);
      out[2] -= of_b * h * b[k];
      of_a += of_flow * v[1];
      of_b -= of_flow * v[1] + of_b * h * v[2];
    }
    return out;
  }

  void measure() {
    measured = temperatures(2.0, 0.8, 0.3, 1.0);
    for (int k = 0; k < steps; ++k) measured[k] += 0.02 * std::sin(12.9898 * k);
  }

  std::vector<Value> residuals(const Parameters& x, const Value& start) const {
    std::vector<Value> rows = temperatures<Value>(x(0, 0), x(0, 1), x(0, 2), start);
    for (int k = 0; k < steps; ++k) rows[k] = rows[k] - measured[k];
    return rows;
  }

  /// Of the rows by capacity, coupling and loss: the steps differentiated by hand.
  Matrix jacobian(const Vector& x, double start) const {
    Matrix out(steps, 3);
    double a = start, b = start;
    Eigen::RowVector3d da = da.Zero(), db = db.Zero();
    for (int k = 0; k < steps; ++k) {
      const double flow = (a - b) * x[1];
      Eigen::RowVector3d df = (da - db) * x[1];
      df[1] += a - b;
      const double rate = (power(k) - flow) / x[0];
      Eigen::RowVector3d rate_by = -df / x[0];
      rate_by[0] -= rate / x[0];
      Eigen::RowVector3d db_next = db + h * (df - x[2] * db);
      db_next[2] -= h * b;
      da += h * rate_by;
      b += h * (flow - x[2] * b);
      a += h * rate;
      db = db_next;
      out.row(k) = da;
    }
    return out;
  }
};

TEST(LongBlocks, DifferentiateTheStepsOfAnIntegrator) {
  Cooling cooling;
  cooling.measure();
  std::vector<double> v = {1.5, 1, 0.5};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  problem.add_residual(0.1 * x(0, 1));  // rows before and after the block
  const Residual block = problem.add_residual(cooling.residuals(x, 1.0));
  problem.add_residual(0.1 * x(0, 2));
  ASSERT_EQ(problem.host_blocks().size(), 1U);
  Evaluator evaluator(problem, kExact);
  const Vector at = Eigen::Map<const Vector>(v.data(), 3);
  const Matrix J = evaluator.jacobian();
  EXPECT_LE((J.middleRows(1, cooling.steps) - cooling.jacobian(at, 1)).norm(), 1e-12 * J.norm());
  EXPECT_NEAR(J(0, 1), 0.1, 1e-15);
  EXPECT_NEAR(J(cooling.steps + 1, 2), 0.1, 1e-15);
  const Vector r = evaluator.residuals();
  EXPECT_LE((evaluator.gradient() - J.transpose() * r).norm(), 1e-11 * r.norm());
  for (int k = 0; k < 3; ++k) {
    Vector up = at, down = at;
    up[k] += 1e-6, down[k] -= 1e-6;
    const Vector difference = (evaluator.residuals(up) - evaluator.residuals(down)) / 2e-6;
    EXPECT_LE((difference - J.col(k)).norm(), 1e-7 * (1 + J.col(k).norm()));
  }
  problem.remove(block);
  EXPECT_EQ(evaluator.residuals().size(), 2);
}

// The minimum is that of Gauss–Newton steps with the Jacobian by hand.
TEST(LongBlocks, AreMinimised) {
  Cooling cooling;
  cooling.measure();
  std::vector<double> v = {1.5, 1, 0.5};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  problem.add_residual(cooling.residuals(x, 1.0));
  const Summary summary = solve(problem, kExact);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
  EXPECT_EQ(summary.host_residuals, 1U);
  Vector by_hand(3);
  by_hand << 1.9, 0.9, 0.35;
  double cost = 0;
  for (int k = 0; k < 30; ++k) {
    const std::vector<double> t = cooling.temperatures(by_hand[0], by_hand[1], by_hand[2], 1.0);
    Vector r(cooling.steps);
    for (int i = 0; i < cooling.steps; ++i) r[i] = t[i] - cooling.measured[i];
    cost = r.squaredNorm() / 2;
    by_hand -= cooling.jacobian(by_hand, 1).householderQr().solve(r);
  }
  EXPECT_NEAR(summary.final_cost, cost, 1e-12 * cost);
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(v[k], by_hand[k], 1e-7);
}

/// √(Σ (p0 exp(−p1 tᵢ) − yᵢ)²), one row.
Value distance(const Parameters& p, const Data& y, const Uniform& weight, int count) {
  Value sum = 0.0;
  for (int k = 0; k < count; ++k) {
    const Value e = p(0, 0) * exp(-p(0, 1) * (0.01 * k)) - y[static_cast<std::size_t>(k)];
    sum = sum + e * e;
  }
  return Value(weight) * sqrt(sum);
}

TEST(LongBlocks, ReadTheNumbersThatWereSet) {
  constexpr int kCount = 300;
  std::vector<double> v = {1, 2}, y(kCount, 0.5);
  Problem problem;
  const Parameters p = problem.add_parameters(v, 2);
  const Data data = problem.add_data(y);
  const Uniform weight = problem.add_uniform(1);
  problem.add_residual(distance(p, data, weight, kCount));
  ASSERT_EQ(problem.host_blocks().size(), 1U);
  Evaluator evaluator(problem, kExact);
  for (const double shift : {0.0, 0.25}) {
    for (double& number : y) number += shift;
    problem.set(data, y);
    problem.set(weight, 1 + shift);
    double sum = 0;
    Vector by = Vector::Zero(2);
    for (int k = 0; k < kCount; ++k) {
      const double decay = std::exp(-v[1] * 0.01 * k), e = v[0] * decay - y[k];
      sum += e * e;
      by += e * Vector{{decay, -v[0] * 0.01 * k * decay}};
    }
    const double expected = (1 + shift) * std::sqrt(sum);
    EXPECT_NEAR(evaluator.residuals()[0], expected, 1e-12 * expected);
    const Vector row = Matrix(evaluator.jacobian()).row(0).transpose();
    EXPECT_LE((row - (1 + shift) * by / std::sqrt(sum)).norm(), 1e-12 * row.norm());
  }
}

TEST(LongBlocks, HaveSecondDerivativesByKernels) {
  Cooling cooling;
  cooling.measure();
  std::vector<double> v = {1.5, 1, 0.5};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  problem.add_residual(0.3 * x(0, 0));
  problem.add_residual(cooling.residuals(x, 1.0), {.loss = huber(0.5), .label = "cooling"});
  Evaluator evaluator(problem, kExact);
  const Vector r = evaluator.residuals(), g = evaluator.gradient();
  const Vector direction{{0.3, -0.2, 0.5}}, at = Eigen::Map<const Vector>(v.data(), 3);
  const Vector product = evaluator.hvp(direction);
  EXPECT_TRUE(problem.host_blocks().empty());
  EXPECT_LE((evaluator.residuals() - r).norm(), 1e-12 * r.norm());
  EXPECT_LE((evaluator.gradient() - g).norm(), 1e-11 * g.norm());
  const Vector up = at + 1e-5 * direction, down = at - 1e-5 * direction;
  const Vector difference = (evaluator.gradient(up) - evaluator.gradient(down)) / 2e-5;
  EXPECT_LE((product - difference).norm(), 1e-6 * product.norm());
  SolverOptions newton = kExact;
  newton.method = Method::newton;
  EXPECT_EQ(solve(problem, newton).termination, Termination::CONVERGENCE);
  EXPECT_EQ(problem.locate(7).label, "cooling");
}

TEST(LongBlocks, BecomeInstancesWhereManyAreAlike) {
  constexpr int kBlocks = 20;
  Cooling cooling{.steps = 120, .measured = std::vector<double>(120, 0.5)};
  std::vector<double> v(3 * kBlocks);
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  std::vector<Residual> handles;
  Vector expected(kBlocks * cooling.steps);
  for (int b = 0; b < kBlocks; ++b) {
    v[3 * b] = 1 + 0.1 * b, v[3 * b + 1] = 0.7, v[3 * b + 2] = 0.2;
    const double start = 1 + 0.05 * b;
    const auto one = [&](const Value& s) {
      std::vector<Value> rows = cooling.temperatures<Value>(x(b, 0), x(b, 1), x(b, 2), s);
      for (Value& row : rows) row = row - 0.5;
      return rows;
    };
    handles.push_back(problem.add_residual(one(start)));
    const std::vector<double> t = cooling.temperatures(v[3 * b], 0.7, 0.2, start);
    for (int k = 0; k < cooling.steps; ++k) expected[b * cooling.steps + k] = t[k] - 0.5;
  }
  EXPECT_TRUE(problem.host_blocks().empty());
  Evaluator evaluator(problem, kExact);
  EXPECT_LE((evaluator.residuals() - expected).norm(), 1e-12 * expected.norm());
  problem.remove(handles[0]);
  problem.remove(handles[18]);
  const Vector left = evaluator.residuals();
  ASSERT_EQ(left.size(), (kBlocks - 2) * cooling.steps);
  EXPECT_LE((left.head(cooling.steps) - expected.segment(cooling.steps, cooling.steps)).norm(),
            1e-12);
  EXPECT_LE((left.tail(cooling.steps) - expected.tail(cooling.steps)).norm(), 1e-12);
}

// Kernels of their rows would compute each step once for every row after it.
TEST(LongBlocks, StayOneEvaluationWhereManyChainsAreAlike) {
  constexpr int kChains = 20;
  Cooling cooling{.steps = 200, .measured = {}};
  cooling.measure();
  std::vector<double> v(3 * kChains, 1.0);
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  Vector expected(3 * kChains);
  for (int b = 0; b < kChains; ++b) {
    v[3 * b] = 1 + 0.1 * b, v[3 * b + 1] = 0.7, v[3 * b + 2] = 0.2;
    std::vector<Value> rows = cooling.temperatures<Value>(x(b, 0), x(b, 1), x(b, 2), 1.0);
    for (Value& row : rows) row = row - 0.5;
    add_shared_residuals(problem, rows, {});
    const std::vector<double> at(v.begin() + 3 * b, v.begin() + 3 * b + 3);
    const std::vector<double> t = cooling.temperatures(at[0], at[1], at[2], 1.0);
    const Vector r = Eigen::Map<const Vector>(t.data(), cooling.steps).array() - 0.5;
    expected.segment<3>(3 * b) = cooling.gradient(at, r);
  }
  EXPECT_EQ(problem.host_blocks().size(), kChains * 200U);
  EXPECT_EQ(problem.topology_count(), 0U);
  Evaluator evaluator(problem, kExact);
  EXPECT_LE((evaluator.gradient() - expected).norm(), 1e-12 * expected.norm());
}

TEST(LongBlocks, BecomeInstancesWhereRowsShareLittle) {
  std::vector<double> v = {0.3, 0.7};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  for (int b = 0; b < 20; ++b) {
    std::vector<Value> rows;
    for (int k = 0; k < 200; ++k)
      rows.push_back(exp(-x[0] * (1 + 0.01 * k)) + sin(x[1] * (2 + 0.01 * k)) * x[0] - 0.1 * b);
    add_shared_residuals(problem, rows, {});
    EXPECT_EQ(problem.host_blocks().size(), b < 16 ? (b + 1) * 200U : 0U);
  }
  EXPECT_EQ(problem.topology_count(), 1U);
  const Vector r = Evaluator(problem, kExact).residuals();
  const double sine = std::sin(0.7 * (2 + 0.01 * 150));
  EXPECT_NEAR(r[18 * 200 + 150], std::exp(-0.3 * 2.5) + sine * 0.3 - 1.8, 1e-14);
}

// A trajectory by its controls: more unknowns than long blocks have elsewhere.
TEST(LongBlocks, StayOneEvaluationWhereEachStepHasAnUnknown) {
  constexpr int kSteps = 400;
  std::vector<double> v(kSteps, 0.1);
  Problem problem;
  const Parameters u = problem.add_parameters(v);
  std::vector<Value> rows;
  Value s = 1.0 + 0.0 * u[0];
  for (int k = 0; k < kSteps; ++k) {
    s = s + 0.1 * (u[k] - sin(s));
    rows.push_back(s - std::cos(0.05 * k));
  }
  add_shared_residuals(problem, rows, {});
  for (int k = 0; k < kSteps; ++k) problem.add_residual(0.1 * u[k]);
  ASSERT_EQ(problem.host_blocks().size(), std::size_t{kSteps});
  // The adjoint of a step: s' = s + 0.1 (u - sin s).
  std::vector<double> states = {1};
  for (int k = 0; k < kSteps; ++k) states.push_back(states[k] + 0.1 * (v[k] - std::sin(states[k])));
  Vector gradient(kSteps);
  double adjoint = 0;
  for (int k = kSteps; k-- > 0;) {
    adjoint += states[k + 1] - std::cos(0.05 * k);
    gradient[k] = 0.1 * adjoint + 0.01 * v[k];
    adjoint *= 1 - 0.1 * std::cos(states[k]);
  }
  EXPECT_LE((Evaluator(problem, kExact).gradient() - gradient).norm(), 1e-12 * gradient.norm());
  const Summary summary = solve(problem, kExact);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
  EXPECT_LE(Evaluator(problem, kExact).gradient().norm(), 1e-8);
}

// A million small residuals are not to wait for one long one.
TEST(LongBlocks, LeaveTheStepsToTheEngineOfMostResiduals) {
  Cooling cooling{.steps = 200, .measured = {}};
  cooling.measure();
  std::vector<double> v = {1.5, 1, 0.5}, w(3000, 1.0);
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3), y = problem.add_parameters(w);
  problem.add_residual(cooling.residuals(x, 1.0));
  for (std::size_t k = 0; k < w.size(); ++k)
    problem.add_residual(y[k] * y[k] - 0.1 * x(0, 0) - 2.0);
  EXPECT_EQ(problem.host_blocks().size(), 1U);
  const Summary summary = solve(problem, {.backend = Backend::cpu});
  EXPECT_EQ(summary.host_residuals, 0U);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
}

TEST(LongBlocks, HaveSensitivities) {
  Cooling cooling{.steps = 150, .measured = {}};
  cooling.measure();
  std::vector<double> v = {1.9, 0.9, 0.35}, start = {1};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  const Data first = problem.add_data(start);
  problem.add_residual(cooling.residuals(x, first[0]));
  ASSERT_EQ(problem.host_blocks().size(), 1U);
  solve(problem, kExact);
  const std::vector<double> at = v, one = {1};
  const Vector slope = Sensitivity(problem).jvp(first, one);
  Matrix ends(3, 2);
  for (int side = 0; side < 2; ++side) {
    start[0] = side == 0 ? 1.0001 : 0.9999;
    problem.set(first, start);
    v = at;
    solve(problem, kExact);
    ends.col(side) = Eigen::Map<const Vector>(v.data(), 3);
  }
  const Vector difference = (ends.col(0) - ends.col(1)) / 2e-4;
  EXPECT_LE((slope - difference).norm(), 1e-4 * slope.norm());
}

// Rows that are blocks of their own are derived together, except where one has a loss, and are long
// blocks again afterwards.
TEST(LongBlocks, HaveSensitivitiesWhoseRowsShareTheSteps) {
  Cooling cooling{.steps = 1500, .h = 0.002, .measured = {}};
  cooling.measure();
  std::vector<double> v = {1.9, 0.9, 0.35}, start = {1}, w = v;
  const std::vector<double> one = {1};
  Problem whole, problem;
  const Parameters x = whole.add_parameters(v, 3), y = problem.add_parameters(w, 3);
  const Data of_whole = whole.add_data(start), first = problem.add_data(start);
  whole.add_residual(cooling.residuals(x, of_whole[0]));
  const Residuals rows =
      add_shared_residuals(problem, cooling.residuals(y, first[0]), {.label = "cooling"});
  ASSERT_EQ(problem.host_blocks().size(), 1500u);
  solve(whole, kExact);
  solve(problem, kExact);
  const Vector expected = Sensitivity(whole).jvp(of_whole, one);
  const Vector found = Sensitivity(problem).jvp(first, one);
  EXPECT_LE((found - expected).norm(), 1e-7 * expected.norm());
  EXPECT_EQ(problem.host_blocks().size(), 1500u);
  EXPECT_EQ(ProblemUse::long_expressions(problem).size(), 1u);

  const Residual sixth{rows.problem, rows.first + 6};
  problem.set_loss(sixth, huber(1e3));  // which changes nothing
  const Vector with_loss = Sensitivity(problem).jvp(first, one);
  EXPECT_LE((with_loss - expected).norm(), 1e-7 * expected.norm());
  problem.remove(sixth);
  EXPECT_EQ(problem.residual_count(), 1499u);
  const Vector at = Eigen::Map<const Vector>(w.data(), 3);
  const std::vector<double> states = cooling.temperatures(w[0], w[1], w[2], 1.0);
  Vector r(cooling.steps);
  for (int k = 0; k < cooling.steps; ++k) r[k] = k == 6 ? 0 : states[k] - cooling.measured[k];
  const Vector gradient = cooling.jacobian(at, 1.0).transpose() * r;
  EXPECT_LE((Evaluator(problem, kExact).gradient() - gradient).norm(), 1e-10 * r.norm());
}

// Each row has a loss of its own, and all share one evaluation, which follows data that change.
TEST(LongBlocks, ShareTheirEvaluationAmongBlocksWithLosses) {
  Cooling cooling;
  cooling.measure();
  std::vector<double> v = {1.7, 0.9, 0.25}, shift = {0};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  const Data offset = problem.add_data(shift);
  std::vector<Value> rows = cooling.residuals(x, 1.0);
  for (Value& row : rows) row = row - offset[0];
  const double scale = 0.02;
  const Residuals added =
      add_shared_residuals(problem, rows, {.loss = cauchy(scale), .label = "cooling"});
  EXPECT_EQ(added.count, rows.size());
  EXPECT_EQ(problem.host_blocks().size(), rows.size());
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  const Vector at = Eigen::Map<const Vector>(v.data(), 3);
  const Matrix J = cooling.jacobian(at, 1.0);
  const std::vector<double> states = cooling.temperatures(v[0], v[1], v[2], 1.0);
  for (const double moved : {0.0, 0.3, 0.1}) {
    problem.set(offset, std::vector<double>{moved});
    double cost = 0;
    Vector gradient = Vector::Zero(3);
    for (int k = 0; k < cooling.steps; ++k) {
      const double r = states[k] - cooling.measured[k] - moved;
      const double s = r * r / (scale * scale);
      cost += 0.5 * scale * scale * std::log1p(s);
      gradient += r / (1 + s) * J.row(k).transpose();
    }
    EXPECT_NEAR(evaluator.cost(), cost, 1e-12 * cost);
    EXPECT_LT((evaluator.gradient() - gradient).norm(), 1e-11 * gradient.norm());
  }
  problem.set(offset, std::vector<double>{0});
  problem.set_loss(added, Loss());
  EXPECT_EQ(solve(problem, kExact).termination, Termination::CONVERGENCE);
  const Vector found = Eigen::Map<const Vector>(v.data(), 3);
  Vector r(cooling.steps);
  const std::vector<double> fitted = cooling.temperatures(found[0], found[1], found[2], 1.0);
  for (int k = 0; k < cooling.steps; ++k) r[k] = fitted[k] - cooling.measured[k];
  EXPECT_LT((cooling.jacobian(found, 1.0).transpose() * r).norm(), 1e-8);
}

// The gradient against a hand-written adjoint; the memory is that of one step and of the states.
TEST(LongBlocks, AreLoopsOfTenThousandSteps) {
  Cooling cooling{.steps = 10'000, .h = 5e-4};
  cooling.measure();
  std::vector<double> v = {1.7, 0.9, 0.25};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  const Residual block = problem.add_residual(cooling.residuals(x, 1.0), {.label = "cooling"});
  const std::vector<LongExpression> found = ProblemUse::long_expressions(problem);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rolling, Rolling::loop);
  EXPECT_EQ(found[0].label, "cooling");
  EXPECT_EQ(found[0].rows, 10'000U);
  EXPECT_EQ(found[0].states, 2U);
  EXPECT_EQ(found[0].step_operations, 10U);
  EXPECT_GT(found[0].steps, 9'900U);
  // 16 bytes for each node of the tape and each number, beside the loop.
  EXPECT_LT(found[0].bytes, std::size_t{10'000} * 400);
  EXPECT_LT(found[0].work_bytes, std::size_t{10'000} * 200);
  Evaluator evaluator(problem, kExact);
  const Vector r = evaluator.residuals();
  const Vector expected = cooling.gradient(v, r);
  EXPECT_LE((evaluator.gradient() - expected).norm(), 1e-10 * expected.norm());
  const Summary summary = solve(problem, kExact);
  EXPECT_NE(summary.full_report().find("a loop of 9"), std::string::npos);
  problem.remove(block);
}

// Beside kernels of second derivatives, under losses, and beside differences of gradients.
TEST(LongBlocks, HaveProductsWithTheHessianWithoutKernels) {
  Cooling cooling{.steps = 130};
  cooling.measure();
  std::vector<double> v = {1.7, 0.9, 0.25}, offset = {0.1};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  const Parameters b = problem.add_parameters(offset, 1);
  const std::vector<Value> rows = cooling.residuals(x, 1.0 + sin(b[0]) * tanh(x(0, 2)));
  problem.add_residual(rows, {.loss = Loss::cauchy(0.7)});
  add_shared_residuals(problem, rows, {.loss = Loss::soft_l1(0.3)}, 2);
  problem.set_constant(x, 0, 2);
  const Vector p = (Vector(4) << 0.3, -0.7, 1.1, 0.4).finished();
  for (const Losses losses : {Losses::applied, Losses::ignored}) {
    Evaluator evaluator(problem, kExact, losses);
    const Vector found = evaluator.hvp(p);
    EXPECT_EQ(problem.host_blocks().size(), 66U);
    EXPECT_EQ(found[1], 0);
    const double h = 1e-5;
    Vector free = p;
    free[1] = 0;
    const Vector at = (Vector(4) << v[0], v[1], v[2], offset[0]).finished();
    const Vector differences =
        (evaluator.gradient(Vector(at + h * free)) - evaluator.gradient(Vector(at - h * free))) /
        (2 * h);
    EXPECT_LT((found - differences).norm(), 1e-8 * found.norm());
    EXPECT_EQ(evaluator.hvp(at, p), found);
  }
  Evaluator evaluator(problem, kExact);
  const Vector found = evaluator.hvp(p);
  ProblemUse::settle_long_blocks(problem, true);
  EXPECT_EQ(problem.host_blocks().size(), 0U);
  EXPECT_LT((Evaluator(problem, kExact).hvp(p) - found).norm(), 1e-11 * found.norm());
}

TEST(LongBlocks, HaveProductsWithTheHessianOfTenThousandSteps) {
  Cooling cooling{.steps = 10'000, .h = 5e-4};
  cooling.measure();
  std::vector<double> v = {1.7, 0.9, 0.25};
  Problem problem;
  problem.add_residual(cooling.residuals(problem.add_parameters(v, 3), 1.0));
  Evaluator evaluator(problem, kExact);
  const Vector p = (Vector(3) << 0.3, -0.7, 1.1).finished();
  const Vector found = evaluator.hvp(p);
  EXPECT_EQ(problem.host_blocks().size(), 1U);
  const Vector at = Eigen::Map<const Vector>(v.data(), 3);
  const double h = 1e-5;
  const Vector differences =
      (evaluator.gradient(Vector(at + h * p)) - evaluator.gradient(Vector(at - h * p))) / (2 * h);
  EXPECT_LT((found - differences).norm(), 1e-8 * found.norm());
}

// One row of many steps: the gradient against a hand-written adjoint, products with the Hessian
// against differences. Memory is that of the tape and of the states, where nodes took 120 bytes.
TEST(LongBlocks, GoBackwardThroughLoopsOfManySteps) {
  constexpr int kSteps = 40'000;
  Cooling cooling{.steps = kSteps, .h = 1e-4};
  std::vector<double> v = {1.7, 0.9, 0.25};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  problem.add_residual(cooling.temperatures<Value>(x(0, 0), x(0, 1), x(0, 2), 1.0).back());
  const std::vector<LongExpression> found = ProblemUse::long_expressions(problem);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rolling, Rolling::loop);
  EXPECT_EQ(found[0].rows, 1U);
  EXPECT_LT(found[0].bytes, std::size_t{kSteps} * 400);
  // 32 bytes a step on x86, 48 on aarch64, where GCC takes operands in another order.
  EXPECT_LT(found[0].work_bytes, std::size_t{kSteps} * 50);
  Evaluator evaluator(problem, kExact);
  Vector r = Vector::Zero(kSteps);
  r[kSteps - 1] = evaluator.residuals()[0];
  const Vector expected = cooling.gradient(v, r);
  EXPECT_LE((evaluator.gradient() - expected).norm(), 1e-10 * expected.norm());
  const Vector p = (Vector(3) << 0.3, -0.7, 1.1).finished();
  const Vector product = evaluator.hvp(p);
  const Vector at = Eigen::Map<const Vector>(v.data(), 3);
  const double h = 1e-5;
  const Vector differences =
      (evaluator.gradient(Vector(at + h * p)) - evaluator.gradient(Vector(at - h * p))) / (2 * h);
  EXPECT_LT((product - differences).norm(), 1e-8 * product.norm());
  EXPECT_EQ(problem.host_blocks().size(), 1U);
}

TEST(LongBlocks, SayWhyTheyAreNoLoops) {
  std::vector<double> v(200, 0.5);
  Problem problem;
  const Parameters x = problem.add_parameters(v, 1);
  Value sum = 0.0, mixed = 1.0;
  for (std::size_t k = 0; k < 600; ++k) {
    sum = sum + x[k % 200] * x[(k * k) % 200];
    mixed = (k * k / 7) % 3 == 0 ? mixed + x[k % 5] : (k / 11) % 2 == 0 ? mixed * 0.9 : sin(mixed);
  }
  problem.add_residual(sum);
  std::vector<Value> rows;
  for (std::size_t k = 0; k < 40; ++k) rows.push_back(mixed * x[k % 5] + exp(x[k % 7]));
  Value other = 1.0;
  for (std::size_t k = 0; k < 1200; ++k)
    other = (k * k * k / 13 + k / 3) % 3 == 0 ? other + x[k % 5] * 0.1
            : (k * k / 11) % 2 == 0           ? other * 0.9
                                              : sin(other) - x[(k / 7) % 5];
  for (Value& row : rows) row = row + other;
  problem.add_residual(rows);
  const std::vector<LongExpression> found = ProblemUse::long_expressions(problem);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(text(found[0]), "no loop: derivatives go backward, for 200 unknowns and 1 row");
  EXPECT_EQ(text(found[1]),
            "no loop: 0 % of the operations repeat in equal steps, and half of them would have to");
}

/// Rows that are added one by one, each of which reads a state of the simulation.
void add_one_by_one(Problem& problem, const Cooling& cooling, const Parameters& x, bool marked) {
  Value a = 1.0, b = 1.0;
  for (int k = 0; k < cooling.steps; ++k) {
    const Value flow = (a - b) * x(0, 1);
    a = a + cooling.h * (cooling.power(k) - flow) / x(0, 0);
    b = b + cooling.h * (flow - x(0, 2) * b);
    if (marked) a = shared(a);
    problem.add_residual(a - cooling.measured[k], {.loss = Loss::cauchy(0.5), .label = "cooling"});
  }
}

TEST(SharedValues, AreComputedOnceForRowsThatAreAddedOneByOne) {
  Cooling cooling{.steps = 200};
  cooling.measure();
  std::vector<double> v = {1.7, 0.9, 0.25}, other = v;
  Problem problem, inlined;
  add_one_by_one(problem, cooling, problem.add_parameters(v, 3), true);
  add_one_by_one(inlined, cooling, inlined.add_parameters(other, 3), false);
  // Whoever asks for a block before the first evaluation gets one that can be evaluated.
  const HostBlock& waiting = problem.host_blocks()[1];
  const double* const at = v.data();
  double row = 0;
  ASSERT_TRUE(waiting.function->evaluate(&at, &row, nullptr));
  Evaluator evaluator(problem, kExact), reference(inlined, kExact);
  EXPECT_EQ(row, cooling.temperatures(v[0], v[1], v[2], 1.0)[1] - cooling.measured[1]);
  ASSERT_EQ(problem.host_blocks().size(), 200U);
  const Matrix J = evaluator.jacobian();
  EXPECT_LT((J - reference.jacobian()).norm(), 1e-12 * J.norm());
  EXPECT_NEAR(evaluator.cost(), reference.cost(), 1e-12 * reference.cost());
  const std::vector<SharedValues> found = ProblemUse::shared_values(problem);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].stored);
  EXPECT_EQ(found[0].values, 200U);
  EXPECT_EQ(found[0].blocks, 200U);
  EXPECT_LT(found[0].operations_stored, 200U * 12);
  EXPECT_GT(found[0].operations_inlined, 50U * found[0].operations_stored);
  EXPECT_LT(found[0].seconds_stored, found[0].seconds_inlined);
  const std::vector<LongExpression> loops = ProblemUse::long_expressions(problem);
  ASSERT_EQ(loops.size(), 1U);
  EXPECT_EQ(loops[0].blocks, 200U);
  EXPECT_EQ(loops[0].rolling, Rolling::loop);
  const Summary summary = solve(problem, kExact);
  solve(inlined, kExact);
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(v[k], other[k], 1e-9);
  EXPECT_NE(summary.full_report().find("200 shared values of 200 blocks: stored"),
            std::string::npos);
  EXPECT_NE(to_json(summary).find("\"shared_values\""), std::string::npos);
}

/// Three residuals of each triangle read its normal.
void add_triangles(Problem& problem, const Parameters& x, std::size_t triangles, bool marked) {
  for (std::size_t t = 0; t < triangles; ++t) {
    const Vec3 a = x.vec3(t), b = x.vec3(t + 1), c = x.vec3(t + 2);
    Vec3 n = normalize(cross(b - a, c - a));
    if (marked) n = shared(n);
    problem.add_residual(n.z - 0.5);
    problem.add_residual(dot(n, b - c) + dot(a, n) - 0.1);
    problem.add_residual(n.x * n.y + 0.2 * a.x);
  }
}

TEST(SharedValues, AreInlinedWhereThatTakesLess) {
  const std::size_t kTriangles = 400;
  std::vector<double> v(3 * (kTriangles + 2));
  for (std::size_t k = 0; k < v.size(); ++k) v[k] = std::sin(1.7 * static_cast<double>(k * k % 97));
  std::vector<double> other = v;
  Problem problem, plain;
  const Parameters x = problem.add_parameters(v, 3);
  add_triangles(problem, x, kTriangles, true);
  add_triangles(plain, plain.add_parameters(other, 3), kTriangles, false);
  problem.remove(problem.add_residual(shared(x.vec3(0).x * x.vec3(1).y) - 1));
  const Summary summary = solve(problem, {.backend = Backend::cpu, .max_iterations = 3});
  const Summary expected = solve(plain, {.backend = Backend::cpu, .max_iterations = 3});
  EXPECT_EQ(summary.final_cost, expected.final_cost);
  EXPECT_EQ(v, other);
  EXPECT_EQ(problem.host_blocks().size(), 0U);
  ASSERT_EQ(summary.shared_values.size(), 1U);
  const SharedValues& normals = summary.shared_values[0];
  EXPECT_FALSE(normals.stored);
  EXPECT_EQ(normals.groups, kTriangles);
  EXPECT_EQ(normals.blocks, 3 * kTriangles);
  EXPECT_EQ(normals.values, 3 * kTriangles);
  EXPECT_GT(normals.seconds_stored, normals.seconds_inlined);
  EXPECT_EQ(summary.topologies.size(), expected.topologies.size());
}

TEST(SharedValues, LeaveTheStepsToTheEngineOfMostResiduals) {
  Cooling cooling{.steps = 20};
  cooling.measure();
  std::vector<double> v = {1.7, 0.9, 0.25}, many(5000, 0.5);
  Problem problem;
  add_one_by_one(problem, cooling, problem.add_parameters(v, 3), true);
  const Parameters y = problem.add_parameters(many);
  std::vector<std::uint32_t> numbered(many.size());
  std::iota(numbered.begin(), numbered.end(), 0U);
  const auto row = [&](Element e) { return y[e.index(0)] * exp(y[e.index(0)]) - 1; };
  problem.add_residuals(many.size(), row, {.indices = numbered});
  const Summary summary = solve(problem, {.backend = Backend::cpu});
  EXPECT_EQ(summary.host_residuals, 0U);
  ASSERT_EQ(summary.shared_values.size(), 1U);
  EXPECT_FALSE(summary.shared_values[0].stored);
  EXPECT_LT(summary.shared_values[0].seconds_stored, summary.shared_values[0].seconds_inlined);
}

TEST(SharedValues, FollowWhatIsDoneToTheirBlocks) {
  Cooling cooling{.steps = 60};
  cooling.measure();
  std::vector<double> v = {1.7, 0.9, 0.25};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  const std::vector<Value> all = cooling.temperatures<Value>(x(0, 0), x(0, 1), x(0, 2), 1.0);
  const Value middle = shared(all[30]);
  const Residual first = problem.add_residual(middle - 1.0);
  const Residual second = problem.add_residual({middle * x(0, 1), all[59]});
  const Residual third = problem.add_residual(middle * middle - 2.0);
  problem.add_residual(x(0, 0) - 1.0);  // reads no marked value
  problem.remove(first);
  problem.set_loss(third, Loss::huber(0.1));
  Evaluator evaluator(problem, kExact);
  const auto m = cooling.temperatures(v[0], v[1], v[2], 1.0);
  Vector expected(4);
  expected << m[30] * v[1], m[59], m[30] * m[30] - 2, v[0] - 1;
  EXPECT_LT((Evaluator(problem, kExact, Losses::ignored).residuals() - expected).norm(), 1e-14);
  const double outlier = expected[2];
  const double huber = 0.1 * std::fabs(outlier) - 0.005;
  const double squares = expected.squaredNorm() - outlier * outlier;
  EXPECT_NEAR(evaluator.cost(), 0.5 * squares + huber, 1e-13);
  EXPECT_EQ(problem.host_blocks().size(), 2U);
  v[0] = 1.2;
  EXPECT_NEAR(evaluator.residuals()[3], 0.2, 1e-15);
  const double later = cooling.temperatures(v[0], v[1], v[2], 1.0)[59];
  EXPECT_NEAR(evaluator.residuals()[1], later, 1e-14);
  const Matrix before = evaluator.jacobian();
  ProblemUse::settle_long_blocks(problem, true);  // kernels
  EXPECT_EQ(problem.host_blocks().size(), 0U);
  EXPECT_FALSE(ProblemUse::shared_values(problem).at(0).stored);
  EXPECT_LT((Evaluator(problem, kExact).jacobian() - before).norm(), 1e-13 * before.norm());
  problem.remove(second);
  EXPECT_EQ(Evaluator(problem, kExact).residuals().size(), 2);
}

TEST(LongBlocks, ThatShareAnEvaluationBecomeInstancesToo) {
  Cooling cooling{.steps = 110};
  cooling.measure();
  std::vector<double> v = {1.7, 0.9, 0.25};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  const std::vector<Value> all = cooling.residuals(x, 1.0);
  const std::vector<Value> rows = {all[30], all[70], all[109]};
  add_shared_residuals(problem, rows, {});
  EXPECT_THROW(add_shared_residuals(problem, rows, {}, 2), Error);
  EXPECT_EQ(problem.host_blocks().size(), 3U);
  const Matrix before = Evaluator(problem, {.backend = Backend::cpu}).jacobian();
  ProblemUse::settle_long_blocks(problem, true);
  EXPECT_EQ(problem.host_blocks().size(), 0U);
  const Matrix after = Evaluator(problem, {.backend = Backend::cpu}).jacobian();
  EXPECT_LT((after - before).norm(), 1e-12 * before.norm());
  const Matrix J = cooling.jacobian(Eigen::Map<const Vector>(v.data(), 3), 1.0);
  EXPECT_LT((before.row(1) - J.row(70)).norm(), 1e-12 * J.row(70).norm());
}

}  // namespace
}  // namespace topograd
