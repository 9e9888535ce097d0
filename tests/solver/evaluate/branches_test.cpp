// Branches on Values in solves and evaluations: the same results as with select(), never stale.
#include <gtest/gtest.h>

#include "../../../frontend/functor.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/summary.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "branch_problems.hpp"

namespace topograd::test {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "no error";
}

struct Setting {
  Precision precision;
  LinearSolver linear;
  double tolerance;
};

TEST(Branches, InstancesThatChangeSidesEndWhereSelectDoes) {
  const Setting settings[] = {{Precision::f64, LinearSolver::pcg, 1e-7},
                              {Precision::f64, LinearSolver::cholesky, 1e-7},
                              {Precision::f32, LinearSolver::pcg, 2e-3}};
  for (const Setting& setting : settings) {
    for (const double start : {-2.0, 3.0, 0.1}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(setting.linear)) + " from " +
                   std::to_string(start));
      SidedSprings branching(40, start, Written::by_if), selecting(40, start, Written::by_select);
      const SolverOptions options{.backend = Backend::cpu,
                                  .precision = setting.precision,
                                  .linear_solver = setting.linear,
                                  .max_iterations = 100,
                                  .function_tolerance = 1e-14};
      const Summary expected = solve(selecting.problem, options);
      const Summary actual = solve(branching.problem, options);
      EXPECT_GT(actual.num_retraces, 0u) << actual.full_report();
      EXPECT_LE(actual.num_retraces, actual.num_flips);
      EXPECT_NEAR(actual.final_cost, expected.final_cost, setting.tolerance * expected.final_cost);
      for (std::size_t k = 0; k < branching.x.size(); ++k)
        EXPECT_NEAR(branching.x[k], selecting.x[k], 10 * setting.tolerance) << k;
      EXPECT_NE(actual.full_report().find("Branches that flipped"), std::string::npos);
      EXPECT_NE(to_json(actual).find("\"retraces\""), std::string::npos);
      EXPECT_EQ(expected.num_flips, 0u);
    }
  }
}

/// log(x) = 1, and no value for x <= 0, as functors for Ceres express it.
struct LogOfPositive {
  template <class T>
  bool operator()(const T* x, T* r) const {
    const bool refused = x[0] <= T(0.0);
    if (refused) return false;
    r[0] = log(x[0]) - T(1.0);
    return true;
  }
};

TEST(Branches, AFunctorThatReturnsFalseAtATrialPointRefusesIt) {
  for (const Method method : {Method::levenberg_marquardt, Method::dogleg, Method::lbfgs}) {
    SCOPED_TRACE(name(method));
    std::vector<double> x = {9.0};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    add_residual_block<1>(problem, LogOfPositive{}, {p.block(0)});
    const Summary summary = solve(problem, {.backend = Backend::cpu, .method = method});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.full_report();
    EXPECT_NEAR(x[0], std::exp(1.0), 1e-5);
    if (method == Method::levenberg_marquardt) {
      EXPECT_GT(summary.num_nonfinite_steps, 0);
    }
  }
}

TEST(Branches, StepsOnTheHostAndUnderBoundsFollowThem) {
  struct Row {
    Method method;
    LinearSolver linear;
    bool bounded;
  };
  for (const Row& row : {Row{Method::dogleg, LinearSolver::cholesky, false},
                         Row{Method::levenberg_marquardt, LinearSolver::dense, false},
                         Row{Method::levenberg_marquardt, LinearSolver::cholesky, true},
                         Row{Method::levenberg_marquardt, LinearSolver::pcg, true}}) {
    SCOPED_TRACE(std::string(name(row.method)) + ", " + std::string(name(row.linear)));
    SidedSprings branching(20, -2.0, Written::by_if), selecting(20, -2.0, Written::by_select);
    for (SidedSprings* problem : {&branching, &selecting}) {
      for (std::size_t k = 0; row.bounded && k < 20; ++k)
        problem->problem.set_bounds(problem->parameters, k, 0, -2.5, 0.4);
    }
    const SolverOptions options{.backend = Backend::cpu,
                                .method = row.method,
                                .linear_solver = row.linear,
                                .max_iterations = 200,
                                .function_tolerance = 1e-14};
    const Summary expected = solve(selecting.problem, options);
    const Summary actual = solve(branching.problem, options);
    EXPECT_GT(actual.num_flips, 0u) << actual.full_report();
    EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-7 * expected.final_cost);
    for (std::size_t k = 0; k < branching.x.size(); ++k)
      EXPECT_NEAR(branching.x[k], selecting.x[k], 1e-6) << k;
  }
}

bool has_select(const Problem& problem) {
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    if (problem.batch(t).size() == 0) continue;
    for (const ir::Node& node : problem.topology(t).program.nodes)
      if (node.op == ir::Op::Select) return true;
  }
  return false;
}

// A valley with different sides: steps from one side repeatedly end on the other.
TEST(Branches, InstancesThatFlipAgainBecomeSelects) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    std::vector<double> x = {1.0, 1.5, -2.0}, y = x;
    std::vector<std::uint32_t> indices = {0, 1, 2};
    Problem branching, selecting;
    const Parameters p = branching.add_parameters(x), q = selecting.add_parameters(y);
    branching.add_residuals(3,
                            [p](Element e) -> Value {
                              const Value a = e.scalar(p, 0);
                              if (a > 0.0) return exp(a) - 0.5;
                              return exp(-2.0 * a) - 0.5;
                            },
                            {.indices = indices});
    selecting.add_residuals(3,
                            [q](Element e) {
                              const Value a = e.scalar(q, 0);
                              return select(a > 0.0, exp(a) - 0.5, exp(-2.0 * a) - 0.5);
                            },
                            {.indices = indices});
    const SolverOptions options{.backend = Backend::cpu, .precision = precision};
    const Summary actual = solve(branching, options), expected = solve(selecting, options);
    EXPECT_TRUE(has_select(branching)) << actual.full_report();
    EXPECT_EQ(actual.num_iterations(), expected.num_iterations());
    EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-6);
    EXPECT_LE(actual.num_flips, 6u);
    EXPECT_LE(actual.num_retraces, actual.num_flips);
  }
}

/// Twelve branches in a row, each on the sum so far.
template <class T, class Choose>
T staircase(const T& x, const Choose& choose) {
  T sum = 0.3 * x;
  for (int k = 0; k < 12; ++k) sum = choose(sum, 0.15 * k - 0.8);
  return sum;
}

Value climb(const Value& s, double at) {
  if (s > at) return s + 0.2 * (s - at);
  return s - 0.1 * (at - s);
}
Value climb_by_select(const Value& s, double at) {
  return select(s > at, s + 0.2 * (s - at), s - 0.1 * (at - s));
}

TEST(Branches, ManyInARow) {
  const std::size_t n = 50;
  std::vector<double> x(n), targets;
  std::vector<std::uint32_t> indices;
  for (std::size_t k = 0; k < n; ++k) {
    x[k] = std::cos(static_cast<double>(k)) * 3;
    targets.push_back(std::sin(1.3 * static_cast<double>(k)) * 4);
    indices.push_back(static_cast<std::uint32_t>(k));
  }
  std::vector<double> y = x;
  Problem branching, selecting;
  const Parameters p = branching.add_parameters(x), q = selecting.add_parameters(y);
  const MapOptions map{.indices = indices, .data = targets};
  branching.add_residuals(
      n, [p](Element e) { return staircase(e.scalar(p, 0), climb) - e.data(0); }, map);
  selecting.add_residuals(
      n, [q](Element e) { return staircase(e.scalar(q, 0), climb_by_select) - e.data(0); }, map);
  const SolverOptions options{.backend = Backend::cpu, .function_tolerance = 1e-15};
  const Summary actual = solve(branching, options), expected = solve(selecting, options);
  EXPECT_GT(actual.num_retraces, 0u);
  EXPECT_LT(branching.statistics().map_traces, n + 50);
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-10);
  for (std::size_t k = 0; k < n; ++k) EXPECT_NEAR(x[k], y[k], 1e-6) << k;
}

TEST(Branches, PlainValuesThatFlipAreAnErrorAtTheLastAcceptedPoint) {
  std::vector<double> x = {4.0, 1.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[1] - 1.0);
  const Value a = p[0];
  if (a > 1.0) {
    problem.add_residual(a * a + 0.1, {.label = "bowl"});
  } else {
    problem.add_residual(a, {.label = "bowl"});
  }
  std::vector<double> accepted;
  SolverOptions options{.backend = Backend::cpu};
  options.callback = [&](const IterationSummary& i) {
    if (i.step_is_successful) accepted.push_back(i.cost);
    return CallbackReturn::SOLVER_CONTINUE;
  };
  const std::string message = message_of([&] { solve(problem, options); });
  EXPECT_EQ(message.substr(0, message.find(" (topology")),
            "stale_branch: solve: if: a branch of residual \"bowl\" #0");
  EXPECT_NE(message.find("holds no longer, and there is no callable to trace it again; add the "
                         "residual by a callable, or use select(condition, a, b)"),
            std::string::npos)
      << message;
  ASSERT_GT(accepted.size(), 1u);
  EXPECT_GT(x[0], 1.0);
  EXPECT_LT(x[0], 4.0);
  const double r = x[0] * x[0] + 0.1;
  EXPECT_NEAR(accepted.back(), 0.5 * (r * r + (x[1] - 1) * (x[1] - 1)), 1e-9);
}

// The same residual as a callable succeeds.
TEST(Branches, OneResidualByACallableIsTracedAgain) {
  std::vector<double> x = {4.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  int calls = 0;
  problem.add_residual(
      [p, &calls]() -> Value {
        ++calls;
        const Value a = p[0];
        if (a > 1.0) return a * a + 0.1;
        return a + 0.1;
      },
      {.label = "bowl"});
  const Summary summary = solve(problem, {.backend = Backend::cpu});
  EXPECT_NEAR(x[0], -0.1, 1e-6) << summary.full_report();
  EXPECT_GE(summary.num_retraces, 1u);
  EXPECT_GE(calls, 2);
  EXPECT_LE(calls, 4);
}

TEST(Branches, EvaluationsAreRightAtEveryPoint) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    SidedSprings branching(12, 0.0, Written::by_if), selecting(12, 0.0, Written::by_select);
    const SolverOptions options{.backend = Backend::cpu, .precision = precision};
    Evaluator a(branching.problem, options), b(selecting.problem, options);
    const double tolerance = precision == Precision::f64 ? 1e-12 : 1e-4;
    std::vector<double> seeds(b.residuals().size(), 0.5), direction(12, 0.25);
    for (int k = 0; k < 24; ++k) {
      std::vector<double> x(12);
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = 2 * std::sin(1.7 * static_cast<double>(i) + 0.9 * k);
      // Another call comes first each time: none may use the branches of the last point.
      switch (k % 8) {
        case 0: EXPECT_NEAR(a.cost(x), b.cost(x), tolerance * 100); break;
        case 1: EXPECT_LE((a.residuals(x) - b.residuals(x)).norm(), tolerance * 10); break;
        case 2: EXPECT_LE((a.gradient(x) - b.gradient(x)).norm(), tolerance * 100); break;
        case 3: EXPECT_LE((a.jacobian(x) - b.jacobian(x)).norm(), tolerance * 10); break;
        case 4: EXPECT_LE((a.jtj(x) - b.jtj(x)).norm(), tolerance * 100); break;
        case 5:
          EXPECT_LE((a.jvp(x, direction) - b.jvp(x, direction)).norm(), tolerance * 10);
          break;
        case 6: EXPECT_LE((a.vjp(x, seeds) - b.vjp(x, seeds)).norm(), tolerance * 10); break;
        case 7: EXPECT_LE((a.jtjp(x, direction) - b.jtjp(x, direction)).norm(), tolerance * 100);
      }
    }
    EXPECT_EQ(branching.problem.residual_count(), selecting.problem.residual_count());
  }
}

// Labels, losses and rows stay with an instance that moves.
TEST(Branches, LossesAndPlacesStay) {
  SidedSprings branching(12, 0.0, Written::by_if), selecting(12, 0.0, Written::by_select);
  for (SidedSprings* s : {&branching, &selecting})
    s->problem.set_loss(s->springs, Loss::huber(0.3));
  Evaluator a(branching.problem, {.backend = Backend::cpu});
  Evaluator b(selecting.problem, {.backend = Backend::cpu});
  for (int k = 0; k < 4; ++k) {
    std::vector<double> x(12);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 2 * std::sin(static_cast<double>(i) + k);
    EXPECT_NEAR(a.cost(x), b.cost(x), 1e-11);
    EXPECT_LE((a.gradient(x) - b.gradient(x)).norm(), 1e-11);
    for (std::uint64_t row = 0; row < branching.problem.residual_count(); ++row)
      EXPECT_EQ(branching.problem.locate(row).label, selecting.problem.locate(row).label) << row;
  }
}

TEST(Branches, DataAndUniformsFlipThemBetweenCalls) {
  std::vector<double> x = {1.0, 2.0};
  std::vector<std::uint32_t> indices = {0, 1};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data limits = problem.add_data(std::vector<double>{0.0, 0.0});
  const Uniform shift = problem.add_uniform(0.0);
  problem.add_residuals(2,
                        [=](Element e) -> Value {
                          const Value a = e.scalar(p, 0);
                          if (a + shift.value() < e.scalar(limits, 0)) return 10.0 * a;
                          return a;
                        },
                        {.indices = indices});
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  const auto rows = [&] {
    const Eigen::VectorXd r = evaluator.residuals();
    return std::vector<double>(r.begin(), r.end());
  };
  EXPECT_EQ(rows(), (std::vector<double>{1, 2}));
  problem.set(limits, std::vector<double>{0.0, 3.0});
  EXPECT_EQ(rows(), (std::vector<double>{1, 20}));
  problem.set(shift, -2.0);
  EXPECT_EQ(rows(), (std::vector<double>{10, 20}));
  problem.set(shift, 2.0);
  EXPECT_EQ(rows(), (std::vector<double>{1, 2}));
  problem.set(limits, std::vector<double>{5.0, 5.0});
  EXPECT_EQ(rows(), (std::vector<double>{10, 20}));
}

TEST(Branches, PlainValuesFlippedByDataAreAnError) {
  std::vector<double> x = {1.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data limit = problem.add_data(std::vector<double>{0.0});
  Value a = p[0];
  if (a < limit[0]) a = 10.0 * a;
  problem.add_residual(a, {.label = "limited"});
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  EXPECT_EQ(evaluator.cost(), 0.5);
  problem.set(limit, std::vector<double>{3.0});
  EXPECT_EQ(message_of([&] { evaluator.gradient(); }).substr(0, 61),
            "stale_branch: evaluator: if: a branch of residual \"limited\" #");
  problem.set(limit, std::vector<double>{-3.0});
  EXPECT_EQ(evaluator.cost(), 0.5);
}

/// A residual in the style of other systems: loops and branches on T.
struct RootFunctor {
  double target;
  template <class T>
  bool operator()(const T* x, T* residual) const {
    T guess = x[0] * 0.5 + 0.5;
    int steps = 0;
    while (guess * guess - x[0] > 1e-10 && steps++ < 30) guess = 0.5 * (guess + x[0] / guess);
    residual[0] = (guess > 1.5 ? guess : T(2.0 * guess - 1.5)) - target;
    return true;
  }
};

TEST(Branches, FunctorsWithLoopsAndBranches) {
  std::vector<double> x = {30.0, 0.3, 2.0};
  const std::vector<double> start = x, targets = {1.2, 3.0, 1.4};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (std::size_t k = 0; k < x.size(); ++k) {
    problem.add_residual([p, k, f = RootFunctor{targets[k]}] {
      const Value a[] = {p[k]};
      Value r[1];
      f(a, r);
      return r[0];
    });
  }
  const Summary summary = solve(problem, {.backend = Backend::cpu, .function_tolerance = 1e-16});
  EXPECT_GT(summary.num_retraces, 0u);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double root = targets[k] > 1.5 ? targets[k] : (targets[k] + 1.5) / 2;
    EXPECT_NEAR(x[k], root * root, 1e-5) << k << summary.full_report();
  }
}

// A comparison with NaN is false and its negation true, on every backend, as in C++.
TEST(Branches, NanDecidesAsInCpp) {
  std::vector<double> x = {1.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual([p]() -> Value {
    Value r = p[0] * 0.0;
    if (p[0] < 2.0) r += 1.0;
    if (p[0] >= 2.0) r += 10.0;
    if (!(p[0] < 2.0)) r += 100.0;
    if (p[0] != p[0]) r = literal(1000.0) + p[0] * 0.0;
    return select(r != r, 1e6 + 0.0 * r, r);
  });
  problem.add_residual([p]() -> Value {
    if (p[0] < 2.0) return Value(1.0) + 0.0 * min(p[0], 0.0);
    if (p[0] >= 2.0) return Value(2.0) + 0.0 * min(p[0], 0.0);
    return select(p[0] < 0.0, p[0], 3.0);
  });
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  EXPECT_EQ(evaluator.residuals()[1], 1);
  EXPECT_EQ(evaluator.residuals(std::vector<double>{2.0})[1], 2);
  EXPECT_EQ(evaluator.residuals(std::vector<double>{2.0})[0], 110);
  EXPECT_EQ(evaluator.residuals(std::vector<double>{std::nan("")})[1], 3);
}

}  // namespace
}  // namespace topograd::test
