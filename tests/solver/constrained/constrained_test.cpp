// Constraints: closed forms, everything that a problem can have beside them, and what cannot be
// solved.
#include <gtest/gtest.h>

#include <Eigen/Core>

#include "../../../frontend/manifold.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/engine.hpp"
#include "../../../solver/constrained/constrained_run.hpp"
#include "../../../solver/constrained/constraint_values.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/session/engines.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/summary.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

constexpr double kClose = 1e-8;

/// The point of a set that is closest to `target`.
struct Projection {
  explicit Projection(std::vector<double> to, std::vector<double> from = {})
      : target(std::move(to)), x(from.empty() ? target : std::move(from)) {
    unknowns = problem.add_parameters(x);
    for (std::size_t k = 0; k < x.size(); ++k) problem.add_residual(unknowns[k] - target[k]);
  }

  std::vector<double> target, x;
  Problem problem;
  Parameters unknowns;
};

/// A constrained solve at its start, which stays there.
class AtStart final : public InnerSolves {
 public:
  explicit AtStart(Problem& problem)
      : model_(make_model("test", problem, true, ConstraintTerms::penalties)),
        engines_(runtime::cpu::make_cpu_engine(model_.model, {})),
        x_(model_.model.scalars),
        run(problem, model_, options_, summary_, *this) {
    problem.read_x(x_);
    const std::vector<double> gradient = run.objective_gradient();
    run.first_objective = run.objective;
    run.measure(gradient);
    run.measure_rows();
    run.start(gradient, gradient);
  }

  runtime::Engine& engine(runtime::Pass pass) override {
    model_ = make_model("test", run.problem, true, ConstraintTerms::penalties);
    engines_.refresh(model_.model);
    return engines_.at(pass, x_);
  }
  std::span<const double> point() const override { return x_; }
  void move(std::span<const double>) override {}
  void minimize(double, std::span<const double>, bool) override {}

 private:
  const SolverOptions options_;
  Summary summary_;
  ProblemModel model_;
  Engines engines_;
  std::vector<double> x_;

 public:
  ConstrainedRun run;
};

// ‖J v‖² / ‖v‖² with J = diag(3, 5) and v along x, in units of 3/5 and 1: 25.
TEST(ConstrainedRun, CurvatureIsThatOfFreeUnknowns) {
  for (const bool reads_fixed : {false, true}) {
    std::vector<double> x = {0, 0}, z = {2};
    Problem problem;
    const Parameters u = problem.add_parameters(x), fixed = problem.add_parameters(z);
    problem.set_constant(fixed, 0);
    problem.add_residual(3.0 * (u[0] - 1.0));
    problem.add_residual(5.0 * (u[1] - 2.0));
    problem.add_equality(reads_fixed ? u[0] + 1000.0 * fixed[0] - 1.0 : u[0] + 1999.0);
    EXPECT_NEAR(AtStart(problem).run.curvature, 25, 1e-9) << reads_fixed;
  }
}

// Columns of one length that are not orthogonal: the curvature depends on the direction v, and in
// other units it follows the square of the longest column alone.
TEST(ConstrainedRun, CurvatureFollowsUnitsOfUnknowns) {
  const auto share = [](double unit) {
    std::vector<double> x = {0, 0};
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    problem.add_residual(3.0 / unit * u[0] + 5.0 * u[1] - 2.0);
    problem.add_residual(4.0 * u[1] - 1.0);
    problem.add_equality(u[0] / unit + u[1] - 1.0);
    return AtStart(problem).run.curvature / std::max(9 / unit / unit, 41.0);
  };
  for (const double unit : {1e-3, 1e3}) EXPECT_NEAR(share(unit), share(1), 1e-9) << unit;
}

// The curvature of energies is 100 ‖∇²f v‖ / ‖v‖, here at a point without slope.
TEST(ConstrainedRun, CurvatureOfEnergies) {
  for (const double stiffness : {7e-3, 7.0, 7e3}) {
    std::vector<double> x = {0};
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    problem.add_energy(0.5 * stiffness * square(u[0]));
    problem.add_equality(u[0] - 1.0);
    EXPECT_NEAR(AtStart(problem).run.curvature, 100 * stiffness, 1e-6 * stiffness);
  }
}

// Unknowns outside of the objective get the unit in which they change a row as the others do.
TEST(ConstrainedRun, UnitsFollowFromRowsOfConstraints) {
  std::vector<double> x = {1, 2}, z(3);
  Problem problem;
  const Parameters u = problem.add_parameters(x), v = problem.add_parameters(z);
  problem.add_residual(2.0 * u[0]);
  problem.add_residual(10.0 * u[1]);
  for (std::size_t k = 0; k < 3; ++k) {
    const double factor = 4.0 + 3.0 * static_cast<double>(k);
    problem.add_equality(u[k % 2] + factor * v[k] - 3.0);
  }
  AtStart at(problem);
  const double expected[] = {0.2, 1, 4 * 0.2, 7, 10 * 0.2};
  ASSERT_EQ(at.run.units.now().size(), std::size(expected));
  for (std::size_t k = 0; k < std::size(expected); ++k)
    EXPECT_NEAR(at.run.units.now()[k], expected[k], 1e-12) << k;
}

// A fixed unknown is a number: it makes a row no steeper.
TEST(ConstrainedRun, ScalesOfRowsAreThoseOfFreeUnknowns) {
  const auto scale = [](bool is_fixed) {
    std::vector<double> x = {2}, z = {5};
    Problem problem;
    const Parameters u = problem.add_parameters(x), v = problem.add_parameters(z);
    problem.add_residual(u[0] - 1.0);
    if (is_fixed) {
      problem.set_constant(v, 0);
      problem.add_equality(3.0 * u[0] + 1000.0 * v[0]);
    } else {
      problem.add_equality(3.0 * u[0] + 5000.0);
    }
    return AtStart(problem).run.scale.at(0);
  };
  EXPECT_GT(scale(false), 0);
  EXPECT_NEAR(scale(true), scale(false), 1e-12 * scale(false));
}

// The rounding of penalties counts where their gradient does.
TEST(ConstrainedRun, FixedUnknownsRoundNoGradient) {
  const auto rounding = [](int rows) {
    std::vector<double> x = {2}, z = {5};
    Problem problem;
    const Parameters u = problem.add_parameters(x), v = problem.add_parameters(z);
    problem.set_constant(v, 0);
    problem.add_residual(u[0] - 1.0);
    problem.add_equality(3.0 * u[0] + 5000.0);
    for (int k = 0; k < rows; ++k) problem.add_inequality(v[0] - 1.0);
    return AtStart(problem).run.gradient_rounding;
  };
  EXPECT_GT(rounding(0), 0);
  EXPECT_EQ(rounding(100), rounding(0));
}

TEST(ConstrainedRun, ViolationsAddAsSquares) {
  std::vector<double> x = {0};
  Problem problem;
  const Parameters u = problem.add_parameters(x);
  problem.add_residual(u[0]);
  problem.add_equality(u[0] - 1.0);
  problem.add_equality(u[0] - 2.0);
  AtStart at(problem);
  at.run.scale = {1, 2};
  at.run.violation = {3, 2};
  EXPECT_NEAR(at.run.scaled_violation(), 5, 1e-14);
}

TEST(ConstrainedRun, EveryRowIsSeenOnce) {
  std::vector<double> x = {2, 3, 4};
  Problem problem;
  const Parameters u = problem.add_parameters(x);
  for (std::size_t k = 0; k < 2; ++k)  // before the residual
    problem.add_equality({u[k] * u[k + 1] - 1.0, 5.0 * u[k]});
  problem.add_residual(u[0]);
  problem.add_inequality(7.0 * u[2]);
  AtStart at(problem);
  std::vector<std::vector<double>> seen(5);
  std::size_t count = 0;
  for_each_constraint_row(at.run, [&](const ConstraintRow& one) {
    if (++count > seen.size()) return;
    seen.at(one.row).assign(one.derivatives.begin(), one.derivatives.end());
  });
  ASSERT_EQ(count, seen.size());
  const std::vector<double> sums = {3 + 2, 5, 4 + 3, 5, 7};  // of the derivatives of a row
  for (std::size_t row = 0; row < seen.size(); ++row) {
    double sum = 0;
    for (const double d : seen[row]) sum += d;
    EXPECT_EQ(sum, sums[row]) << row;
  }
}

// On a sphere the gradient g − Σ λ ∇c has no part along two tangents: two rows balance any g.
TEST(ConstrainedRun, MultipliersBalanceBothTangentsOfASphere) {
  std::vector<double> x = {1, 2, 2};
  Problem problem;
  const Parameters u = problem.add_parameters(x, 3);
  problem.set_manifold(u, Manifold::sphere(3));
  problem.add_residual(u(0, 0) - 1.0);
  const double rows[2][3] = {{1, -2, 0.5}, {0, 1, 3}};
  for (const auto& c : rows) problem.add_equality(c[0] * u(0, 0) + c[1] * u(0, 1) + c[2] * u(0, 2));
  AtStart at(problem);
  const double multipliers[] = {0.7, -1.5};
  std::vector<double> gradient = {0.3, 0.6, 0.6};  // along x, which no tangent sees
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t row = 0; row < 2; ++row) gradient[k] += multipliers[row] * rows[row][k];
  const std::vector<std::size_t> of = {0, 1};
  const std::vector<double> units = {1, 1};
  fit_multipliers(at.run, {.rows = of, .units = units, .kept = 0}, gradient);
  for (std::size_t row = 0; row < 2; ++row)
    EXPECT_NEAR(at.run.multipliers[row], multipliers[row], 1e-12) << row;
}

// No violation is met by every tolerance, also by one of 0.
TEST(PenaltyRule, DoesNotGrowWithoutViolation) {
  PenaltyRule rule;
  rule.start({.cost = 1});
  const double first = rule.mu;
  for (int k = 0; k < 10; ++k) EXPECT_TRUE(rule.look(0, 0, true)) << k;
  EXPECT_EQ(rule.mu, first);
  EXPECT_FALSE(rule.in_vain());
}

TEST(PenaltyRule, StartsWithThePenaltyThatWasAskedFor) {
  for (const double asked : {1e-3, 0.5, 2.0}) {
    PenaltyRule rule;
    rule.start({.asked = asked, .cost = 1, .squared_violation = 1, .curvature = 7});
    EXPECT_EQ(rule.mu, asked);
  }
}

// Growth in vain is that of five minimisations in turn without any progress.
TEST(PenaltyRule, IsInVainAfterFiveStalls) {
  PenaltyRule rule;
  rule.start({.cost = 1});
  rule.look(1, 1e-9, true);
  for (int k = 0; k < 5; ++k) {
    EXPECT_FALSE(rule.in_vain()) << k;
    rule.look(1, 1e-9, true);
  }
  EXPECT_TRUE(rule.in_vain());
  rule.look(0.5, 1e-9, true);
  EXPECT_FALSE(rule.in_vain());
}

/// The first penalty of a problem whose equality and `inequalities` far away are that much off, by
/// the curvature of the objective.
double first_penalty(Method method, double violation, std::size_t inequalities) {
  std::vector<double> x = {0};
  Problem problem;
  const Parameters u = problem.add_parameters(x);
  problem.add_residual(u[0] - 1000.0);
  problem.add_equality(u[0] - violation);
  for (std::size_t k = 0; k < inequalities; ++k) problem.add_inequality(u[0] + 1e5);
  const Summary s = solve(problem, {.method = method, .max_outer_iterations = 1});
  return s.constrained.penalty;
}

// μ is 10 f / max(1, ½ ‖c‖²), at most 300, and above 1,000 inequalities it falls with the square of
// their number.
TEST(Constrained, TheFirstPenaltyBalancesCostAndViolation) {
  for (const Method method : {Method::augmented_lagrangian, Method::barrier})
    EXPECT_NEAR(first_penalty(method, 1e3, 1) / first_penalty(method, 2e3, 1), 4, 1e-9)
        << name(method);
  const double few = first_penalty(Method::augmented_lagrangian, 1, 10);
  EXPECT_NEAR(first_penalty(Method::augmented_lagrangian, 1, 1000) / few, 1, 1e-9);
  EXPECT_NEAR(first_penalty(Method::augmented_lagrangian, 1, 2000) / few, 0.25, 1e-9);
}

TEST(Constrained, EqualityHasItsMultiplier) {
  Projection one({3, 4});
  const Parameters& x = one.unknowns;
  one.problem.add_equality(square(x[0]) + square(x[1]) - 1.0, {.label = "circle"});
  const Summary s = solve(one.problem);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_EQ(s.method, Method::augmented_lagrangian);
  EXPECT_EQ(s.step_method, Method::levenberg_marquardt);
  EXPECT_NEAR(one.x[0], 0.6, kClose);
  EXPECT_NEAR(one.x[1], 0.8, kClose);
  EXPECT_NEAR(s.initial_cost, 0, kClose);
  EXPECT_NEAR(s.final_cost, 8, kClose);
  EXPECT_EQ(s.residuals, 2u);
  ASSERT_EQ(s.constrained.constraints.size(), 1u);
  const ConstraintSummary& circle = s.constrained.constraints[0];
  EXPECT_EQ(circle.label, "circle");
  EXPECT_EQ(circle.outcome, ConstraintOutcome::active);
  EXPECT_NEAR(circle.multipliers.at(0), (1 - 5) / 2.0, 1e-7);  // x − p = 2 λ x
}

TEST(Constrained, InequalitiesAreActiveOrNot) {
  Projection one({0, 0});
  const Parameters& x = one.unknowns;
  one.problem.add_inequality(x[0] + x[1] - 1.0, {.label = "half plane"});
  one.problem.add_inequality(x[0] + x[1] + 1.0, {.label = "far"});
  const Summary s = solve(one.problem);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(one.x[0], 0.5, kClose);
  EXPECT_NEAR(one.x[1], 0.5, kClose);
  const auto& found = s.constrained.constraints;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].outcome, ConstraintOutcome::active);
  EXPECT_EQ(found[0].active, 1u);
  EXPECT_NEAR(found[0].multipliers.at(0), 0.5, 1e-7);
  EXPECT_EQ(found[0].largest_multiplier, found[0].multipliers.at(0));
  EXPECT_EQ(found[1].outcome, ConstraintOutcome::inactive);
  EXPECT_EQ(found[1].active, 0u);
  EXPECT_EQ(found[1].multipliers.at(0), 0);
  EXPECT_LE(s.constrained.kkt.feasibility, kClose);
  EXPECT_LE(s.constrained.kkt.stationarity, kClose);
  EXPECT_LE(s.constrained.kkt.complementarity, kClose);
}

/// 100 points, each as close to its target as a disc of its own radius lets it be.
struct Discs {
  static constexpr std::size_t kCount = 100;
  enum class Door { single, map, map_by_data };

  explicit Discs(Door door) {
    for (std::size_t k = 0; k < kCount; ++k) {
      const double t = static_cast<double>(k);
      target.insert(target.end(), {2 * std::sin(t), 2 * std::cos(3 * t)});
      radii.push_back(1 + 0.01 * t);
      numbers.push_back(static_cast<std::uint32_t>(k));
    }
    x = target;
    const Parameters p = problem.add_parameters(x, 2);
    const Data goal = problem.add_data(target, 2);
    problem.add_residuals(kCount, [=](Element e) { return e.vec2(p, 0) - e.vec2(goal, 0); },
                          {.indices = numbers});
    if (door == Door::single) {
      for (std::size_t k = 0; k < kCount; ++k)
        problem.add_inequality(radii[k] * radii[k] - dot(p.vec2(k), p.vec2(k)), {.label = "disc"});
    } else if (door == Door::map) {
      problem.add_inequality(
          kCount, [=](Element e) { return square(e.data(0)) - dot(e.vec2(p, 0), e.vec2(p, 0)); },
          {.indices = numbers, .data = radii, .label = "disc"});
    } else {
      radius = problem.add_data(radii);
      const Data r = radius;
      problem.add_inequalities(
          kCount,
          [=](Element e) { return square(r[e.index(0)]) - dot(e.vec2(p, 0), e.vec2(p, 0)); },
          {.indices = numbers, .label = "disc"});
    }
  }

  double error() const {
    double most = 0;
    for (std::size_t k = 0; k < kCount; ++k) {
      const double length = std::hypot(target[2 * k], target[2 * k + 1]);
      const double scale = std::min(1.0, radii[k] / length);
      for (std::size_t c = 0; c < 2; ++c)
        most = std::max(most, std::abs(x[2 * k + c] - scale * target[2 * k + c]));
    }
    return most;
  }

  std::vector<double> target, radii, x;
  std::vector<std::uint32_t> numbers;
  Problem problem;
  Data radius;
};

TEST(Constrained, AllDoorsGiveOneTopology) {
  for (const Discs::Door door : {Discs::Door::single, Discs::Door::map, Discs::Door::map_by_data}) {
    Discs discs(door);
    EXPECT_EQ(discs.problem.topology_count(), 2u);
    EXPECT_EQ(discs.problem.constraint_count(), Discs::kCount);
    const Summary s = solve(discs.problem);
    ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
    EXPECT_LE(discs.error(), 1e-7);
    ASSERT_EQ(s.constrained.constraints.size(), 1u);
    EXPECT_EQ(s.constrained.constraints[0].rows, Discs::kCount);
  }
}

TEST(Constrained, ASolverFollowsDataAndRemovals) {
  Discs discs(Discs::Door::map_by_data);
  Solver solver(discs.problem);
  ASSERT_EQ(solver.solve().termination, Termination::CONVERGENCE);
  const std::uint64_t structure = discs.problem.versions().structure;
  for (double& r : discs.radii) r *= 0.5;
  discs.problem.set(discs.radius, discs.radii);
  const Summary again = solver.solve();
  ASSERT_EQ(again.termination, Termination::CONVERGENCE) << again.message;
  EXPECT_LE(discs.error(), 1e-7);
  EXPECT_EQ(discs.problem.versions().structure, structure);  // nothing is planned again
  EXPECT_EQ(again.shaders_compiled, 0u);

  Projection one({0, 0});
  const Constraint wall = one.problem.add_inequality(one.unknowns[0] - 1.0);
  one.problem.add_residual(one.unknowns[1] - 3.0);  // rows of constraints come after it
  Solver other(one.problem);
  other.solve();
  EXPECT_NEAR(one.x[0], 1, kClose);
  EXPECT_NEAR(one.x[1], 1.5, kClose);
  one.problem.remove(wall);
  EXPECT_EQ(one.problem.constraint_count(), 0u);
  other.solve();
  EXPECT_NEAR(one.x[0], 0, 1e-6);
  EXPECT_THROW(one.problem.remove(wall), Error);
}

TEST(Constrained, RowsOfSpansAndVecs) {
  Projection one({5, 6, 7});
  const Parameters& x = one.unknowns;
  const std::vector<Value> two = {x[0] - 1.0, x[1] - 2.0};
  one.problem.add_equality(std::span<const Value>(two), {.label = "two"});
  one.problem.add_inequality(Vec2{3.0 - x[2], 100.0 - x[2]}, {.label = "vec"});
  const Summary s = solve(one.problem);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(one.x[0], 1, kClose);
  EXPECT_NEAR(one.x[1], 2, kClose);
  EXPECT_NEAR(one.x[2], 3, kClose);
  EXPECT_EQ(one.problem.constraint_count(), 4u);
  const auto& found = s.constrained.constraints;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0].multipliers.at(0), -4, 1e-6);
  EXPECT_NEAR(found[0].multipliers.at(1), -4, 1e-6);
  EXPECT_NEAR(found[1].multipliers.at(0), 4, 1e-6);
  EXPECT_EQ(found[1].multipliers.at(1), 0);
}

TEST(Constrained, BoundsLossesAndFixedUnknownsHold) {
  // ½ ρ(x₀²) with Huber's ρ, whose slope is at most 1, and x₁ at its bound, x₂ fixed.
  std::vector<double> x = {10, 0, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0], {.loss = Loss::huber(1)});
  problem.add_residual(p[1] - 5.0);
  problem.set_bounds(p, 1, 0, -1, 1);
  problem.set_constant(p, 2);
  problem.add_equality(p[0] - p[1] - p[2]);
  const Summary s = solve(problem);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(x[1], 1, kClose);
  EXPECT_NEAR(x[0], 3, kClose);
  EXPECT_EQ(x[2], 2);
  EXPECT_NEAR(s.constrained.multipliers.at(0), 1, 1e-6);  // the slope of Huber's loss beyond 1
}

TEST(Constrained, ManifoldsStay) {
  // The quaternion closest to a target whose rotation leaves the z axis within a half space.
  std::vector<double> q = {1, 0, 0, 0};
  Problem problem;
  const Parameters p = problem.add_parameters(q, 4);
  problem.set_manifold(p, Manifold::quaternion());
  const double half = 0.4;
  const std::array<double, 4> target = {std::cos(half), std::sin(half), 0, 0};
  for (int k = 0; k < 4; ++k) problem.add_residual(p(0, k) - target[static_cast<std::size_t>(k)]);
  // z of the turned z axis: 1 − 2 (q₁² + q₂²) >= cos 0.4, so at most half the turn.
  problem.add_inequality(1.0 - 2.0 * (square(p(0, 1)) + square(p(0, 2))) - std::cos(half));
  const Summary s = solve(problem);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(q[0], std::cos(half / 2), 1e-7);
  EXPECT_NEAR(q[1], std::sin(half / 2), 1e-7);
  EXPECT_NEAR(q[2], 0, 1e-7);
  EXPECT_NEAR(q[3], 0, 1e-7);
}

TEST(Constrained, BranchesAreTracedAgain) {
  Projection one({3, 0.5}, {-2, 0});
  const Parameters& x = one.unknowns;
  // x₀ <= 1 where x₀ > 0, and x₀ >= −5 elsewhere.
  one.problem.add_inequality([x]() -> Value {
    if (x[0] > 0.0) return 1.0 - x[0];
    return x[0] + 5.0;
  });
  const Summary s = solve(one.problem, {.backend = Backend::cpu});
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(one.x[0], 1, kClose);
  EXPECT_NEAR(one.x[1], 0.5, kClose);
}

TEST(Constrained, OnlyConstraintsAreAProblem) {
  std::vector<double> x = {2, 1};  // Hock and Schittkowski, problem 8
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_equality({square(p[0]) + square(p[1]) - 25.0, p[0] * p[1] - 9.0});
  const Summary s = solve(problem);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(x[0], std::sqrt((25 + std::sqrt(301.0)) / 2), kClose);
  EXPECT_NEAR(x[1], 9 / x[0], kClose);
  EXPECT_EQ(s.final_cost, 0);
}

// An equality whose value is above 0 does not hold.
TEST(Constrained, OneEqualityIsAProblem) {
  std::vector<double> x = {3};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_equality(square(p[0]) + 1.0);
  const Summary s = solve(problem);
  EXPECT_NE(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(x[0], 0, 1e-3);
  EXPECT_NEAR(s.constrained.kkt.feasibility, 1, 1e-6) << s.message;
}

TEST(Constrained, EvaluatorsSeeTheObjective) {
  Projection one({3, 4}, {0, 0});
  one.problem.add_equality(one.unknowns[0] - 1.0);
  Evaluator evaluator(one.problem, {.backend = Backend::cpu});
  EXPECT_EQ(evaluator.cost(one.x), 12.5);
  EXPECT_EQ(evaluator.residuals(one.x).size(), 2u);
}

TEST(Constrained, TheCallersMemoryIsWrittenOnce) {
  Projection one({3, 4});
  one.problem.add_equality(square(one.unknowns[0]) + square(one.unknowns[1]) - 1.0);
  int calls = 0;
  SolverOptions options;
  options.callback = [&](const IterationSummary&) {
    EXPECT_EQ(one.x, one.target);
    return ++calls < 4 ? CallbackReturn::SOLVER_CONTINUE
                       : CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
  };
  const Summary s = solve(one.problem, options);
  EXPECT_EQ(s.termination, Termination::USER_SUCCESS);
  EXPECT_EQ(calls, 4);
  EXPECT_NE(one.x, one.target);
}

/// A noisy curve becomes smooth within limits of its acceleration, and its ends stay: a strictly
/// convex quadratic program whose active constraints are independent, but nearly are not.
struct SmoothCurve {
  static constexpr std::size_t kCount = 300;
  static constexpr double kStep = 0.05, kMost = 1.5, kJerk = 0.002 / (kStep * kStep * kStep);

  SmoothCurve() {
    std::mt19937 random(5);
    for (std::size_t k = 0; k < kCount; ++k) {
      const double noise = static_cast<double>(random()) / 4294967296.0 - 0.5;
      wish.push_back(2 * std::sin(1.3 * kStep * static_cast<double>(k)) + (k > kCount / 2 ? 1 : 0) +
                     0.17 * noise);
    }
    x = wish;
    const Parameters p = problem.add_parameters(x);
    for (std::size_t k = 0; k < kCount; ++k) problem.add_residual(p[k] - wish[k]);
    for (std::size_t k = 0; k + 3 < kCount; ++k)
      problem.add_residual(kJerk * (p[k + 3] - 3.0 * p[k + 2] + 3.0 * p[k + 1] - p[k]));
    for (std::size_t k = 0; k + 2 < kCount; ++k) {
      const Value a = (p[k + 2] - 2.0 * p[k + 1] + p[k]) / (kStep * kStep);
      problem.add_inequality(kMost - a);
      problem.add_inequality(kMost + a);
    }
    problem.add_equality(p[0] - wish[0]);
    problem.add_equality(p[kCount - 1] - wish[kCount - 1]);
  }

  /// max |∇f − Jcᵀ λ| and max |∇f|.
  std::pair<double, double> gradients(const std::vector<double>& lambda) const {
    std::vector<double> g(kCount);
    for (std::size_t k = 0; k < kCount; ++k) g[k] = x[k] - wish[k];
    for (std::size_t k = 0; k + 3 < kCount; ++k) {
      const double r = kJerk * kJerk * (x[k + 3] - 3 * x[k + 2] + 3 * x[k + 1] - x[k]);
      g[k] -= r;
      g[k + 1] += 3 * r;
      g[k + 2] -= 3 * r;
      g[k + 3] += r;
    }
    double scale = 0, most = 0;
    for (const double v : g) scale = std::max(scale, std::abs(v));
    for (std::size_t k = 0; k + 2 < kCount; ++k) {
      const double push = (lambda[2 * k] - lambda[2 * k + 1]) / (kStep * kStep);
      g[k] += push;
      g[k + 1] -= 2 * push;
      g[k + 2] += push;
    }
    g[0] -= lambda[lambda.size() - 2];
    g[kCount - 1] -= lambda.back();
    for (const double v : g) most = std::max(most, std::abs(v));
    return {most, scale};
  }

  std::vector<double> wish, x;
  Problem problem;
};

TEST(Constrained, ConditionsOfAConvexProgramHoldAtAnyTolerance) {
  // They are sufficient: the program is convex.
  for (const double tolerance : {1e-4, 1e-6, 1e-8}) {
    SCOPED_TRACE(tolerance);
    SmoothCurve curve;
    const double start =
        curve.gradients(std::vector<double>(2 * (SmoothCurve::kCount - 2) + 2)).second;
    const Summary s = solve(curve.problem, {.backend = Backend::cpu, .kkt_tolerance = tolerance});
    EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
    EXPECT_LE(s.constrained.penalty, 1e10);  // of rows with gradients of length 1, not 980
    EXPECT_EQ(s.advice, Advice::none);
    const std::vector<double>& lambda = s.constrained.multipliers;
    const auto [gradient, scale] = curve.gradients(lambda);
    // Multipliers below 1e-10 of the largest are 0.
    EXPECT_LE(gradient, 2 * tolerance * std::max(scale, 1e-2 * start));
    EXPECT_LE(s.optimality, tolerance);
    for (std::size_t k = 0; k + 2 < SmoothCurve::kCount; ++k) {
      const double a = (curve.x[k + 2] - 2 * curve.x[k + 1] + curve.x[k]) /
                       (SmoothCurve::kStep * SmoothCurve::kStep);
      EXPECT_LE(std::abs(a), SmoothCurve::kMost + 1e-9);
      EXPECT_GE(lambda[2 * k], 0);
      EXPECT_GE(lambda[2 * k + 1], 0);
      EXPECT_LE(lambda[2 * k] * (SmoothCurve::kMost - a), 1e-6);
      EXPECT_LE(lambda[2 * k + 1] * (SmoothCurve::kMost + a), 1e-6);
    }
  }
}

// Minimisations with a penalty of 10⁶ use up their steps along the kinks of 596 inequalities.
TEST(Constrained, APenaltyThatIsTooLargeFalls) {
  SmoothCurve chosen, curve;
  const SolverOptions options{.backend = Backend::cpu, .kkt_tolerance = 1e-6};
  const Summary expected = solve(chosen.problem, options);
  SolverOptions asked = options;
  asked.initial_penalty = 1e6;
  const Summary s = solve(curve.problem, asked);
  EXPECT_EQ(expected.termination, Termination::CONVERGENCE) << expected.message;
  EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(s.final_cost, expected.final_cost, 1e-6 * expected.final_cost);
}

// Multipliers are rounding where the rounding of x times the penalty is larger than the objective's
// gradient: the closest point to (3, 4) with x + y = 1 is (0, 1), with λ = −3.
TEST(Constrained, PenaltiesBeyondRoundingAreBounded) {
  for (const double penalty : {1e12, 1e15, 1e18}) {
    SCOPED_TRACE(penalty);
    Projection one({3, 4});
    one.problem.add_equality(one.unknowns[0] + one.unknowns[1] - 1.0);
    const Summary s = solve(one.problem, {.backend = Backend::cpu, .initial_penalty = penalty});
    EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
    EXPECT_LE(s.constrained.penalty, 1e11);
    EXPECT_NEAR(one.x[0], 0, 1e-9);
    EXPECT_NEAR(one.x[1], 1, 1e-9);
    EXPECT_NEAR(s.constrained.multipliers[0], -3, 1e-8);
  }
}

// Unknowns go to 0, where their size says nothing about their columns.
TEST(Constrained, NonnegativeLeastSquaresEndsAtItsConditions) {
  constexpr Eigen::Index kRows = 60, kUnknowns = 8;
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    const Eigen::MatrixXd matrix =
        Eigen::MatrixXd::NullaryExpr(kRows, kUnknowns, [&] { return normal(random); });
    const Eigen::VectorXd right =
        Eigen::VectorXd::NullaryExpr(kRows, [&] { return normal(random); });
    std::vector<double> x(kUnknowns, 1.0);
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    for (Eigen::Index row = 0; row < kRows; ++row) {
      Value sum = -right[row];
      for (std::size_t k = 0; k < x.size(); ++k)
        sum = sum + p[k] * matrix(row, static_cast<Eigen::Index>(k));
      problem.add_residual(sum);
    }
    for (std::size_t k = 0; k < x.size(); ++k) problem.add_inequality(p[k]);
    const Summary summary = topograd::solve(problem, {.backend = Backend::cpu});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << seed << ": " << summary.message;
    const Eigen::Map<const Eigen::VectorXd> found(x.data(), kUnknowns);
    const Eigen::VectorXd gradient = matrix.transpose() * (matrix * found - right);
    for (Eigen::Index k = 0; k < kUnknowns; ++k) {
      EXPECT_GT(found[k], -1e-9) << seed;
      EXPECT_GT(gradient[k], -1e-6) << seed;
      EXPECT_NEAR(gradient[k] * found[k], 0, 1e-6) << seed;
    }
  }
}

TEST(Constrained, UnitsOfConstraintsChangeNothing) {
  // The closest point to (3, 4, 5) with x + y = 1 and z <= 2: (0, 1, 2) with λ = −3 and 3.
  for (const double unit : {1e-6, 1.0}) {
    for (const Method method : {Method::augmented_lagrangian, Method::barrier}) {
      SCOPED_TRACE(std::string(name(method)) + ", " + std::to_string(unit));
      Projection one({3, 4, 5}, {3, 4, 1});
      const Parameters& x = one.unknowns;
      one.problem.add_equality(unit * (x[0] + x[1] - 1.0));
      one.problem.add_inequality((2.0 - x[2]) / unit);
      const Summary s = solve(one.problem, {.method = method});
      ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
      EXPECT_NEAR(one.x[0], 0, 1e-7);
      EXPECT_NEAR(one.x[1], 1, 1e-7);
      EXPECT_NEAR(one.x[2], 2, 1e-7);
      EXPECT_NEAR(s.constrained.multipliers.at(0) * unit, -3, 1e-6);
      EXPECT_NEAR(s.constrained.multipliers.at(1) / unit, 3, 1e-6);
    }
  }
}

// The sum of squares of both violations is least in the middle, whatever the kinds of the rows.
TEST(Constrained, InfeasibleRowsReportTheirLeastViolation) {
  for (const bool equality : {false, true}) {
    for (const double unit : {1e-6, 1.0, 1e6}) {
      SCOPED_TRACE(std::to_string(equality) + ", " + std::to_string(unit));
      std::vector<double> x = {0.5};
      Problem problem;
      const Parameters u = problem.add_parameters(x);
      problem.add_residual(unit * u[0]);
      problem.add_inequality(1.0 - u[0], {.label = "apart"});
      if (equality) {
        problem.add_equality(u[0] - 4.0, {.label = "at four"});
      } else {
        problem.add_inequality(u[0] - 4.0, {.label = "apart"});
      }
      problem.add_inequality(u[0] + 50.0, {.label = "apart"});
      const Summary s = solve(problem);
      EXPECT_EQ(s.termination, Termination::INFEASIBLE) << s.message;
      EXPECT_NEAR(x[0], 2.5, 1e-2);
      for (const ConstraintSummary& label : s.constrained.constraints)
        EXPECT_NEAR(label.violation, 1.5, 1e-2) << label.label;
    }
  }
}

// The violation is stationary at its maximum, too.
TEST(Constrained, TheGreatestViolationIsNotTheLeast) {
  for (const bool equality : {false, true}) {
    for (const double unit : {1e-9, 1.0, 1e9}) {
      for (const double start : {0.0, 1e-300, 1e-17, -1e-12, 1e-6}) {
        SCOPED_TRACE(std::to_string(equality) + ", " + std::to_string(unit) + ", " +
                     std::to_string(start));
        std::vector<double> x = {start * unit, 0};
        Problem problem;
        const Parameters u = problem.add_parameters(x);
        for (int k = 0; k < 2; ++k) problem.add_residual(u[k] / unit);
        const Value out = square(u[0] / unit) + square(u[1] / unit) - 1.0;
        equality ? problem.add_equality(out) : problem.add_inequality(out);
        const Summary s = solve(problem);
        EXPECT_NE(s.termination, Termination::INFEASIBLE) << s.message;
        const bool claims = s.termination == Termination::CONVERGENCE;
        EXPECT_TRUE(!claims || std::abs(s.final_cost - 0.5) < 1e-6) << s.final_cost;
      }
    }
  }
}

// x³ − 3 x + 3 has one root, and a least violation of 1 at x = 1, between the root and the minimum
// of the objective.
TEST(Constrained, AProblemThatWasMetIsNotInfeasible) {
  constexpr double kRoot = -2.1038034027355365;  // −2 cosh(acosh(3/2) / 3)
  for (const double unit : {1e-6, 1.0, 1e6}) {
    for (const double penalty : {1e-3, 1e-1, 1.0, 0.0}) {
      SCOPED_TRACE(std::to_string(unit) + ", " + std::to_string(penalty));
      std::vector<double> x = {kRoot};
      Problem problem;
      const Parameters u = problem.add_parameters(x);
      problem.add_residual(10 * unit * (u[0] - 2.0));
      problem.add_equality(u[0] * square(u[0]) - 3 * u[0] + 3.0);
      SolverOptions options;
      options.initial_penalty = penalty * unit * unit;
      const Summary s = solve(problem, options);
      EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
      EXPECT_NEAR(x[0], kRoot, kClose);
    }
  }
  // From the other side the root is not found, and no point says that there is one.
  std::vector<double> x = {2};
  Problem problem;
  const Parameters u = problem.add_parameters(x);
  problem.add_residual(u[0] - 2.0);
  problem.add_equality(u[0] * square(u[0]) - 3 * u[0] + 3.0);
  const Summary s = solve(problem);
  EXPECT_EQ(s.termination, Termination::INFEASIBLE) << s.message;
  EXPECT_NEAR(x[0], 1, 1e-2);
}

// The least force that moves a mass from 0 to 1 in a second, in steps: the squares of its Euler
// steps are hardly seen in the gradient of the violation, which was called the least one.
TEST(Constrained, RowsThatAreNearlyDependentCanBeMet) {
  constexpr std::size_t kSteps = 100;
  constexpr double kStep = 1.0 / kSteps;
  for (const double penalty : {0.0, 1e5, 1e8}) {
    SCOPED_TRACE(penalty);
    std::vector<double> state(2 * (kSteps + 1)), force(kSteps);
    Problem problem;
    const Parameters z = problem.add_parameters(state, 2), u = problem.add_parameters(force);
    for (std::size_t k = 0; k < kSteps; ++k) {
      problem.add_residual(std::sqrt(kStep) * u[k]);
      problem.add_equality(z(k + 1, 0) - z(k, 0) - kStep * z(k, 1));
      problem.add_equality(z(k + 1, 1) - z(k, 1) - kStep * u[k]);
    }
    problem.add_equality(z(0, 0));
    problem.add_equality(z(0, 1));
    problem.add_equality(z(kSteps, 0) - 1.0);
    problem.add_equality(z(kSteps, 1));
    SolverOptions options;
    options.initial_penalty = penalty;
    const Summary s = solve(problem, options);
    EXPECT_NE(s.termination, Termination::INFEASIBLE) << s.message;
  }
}

// Over the free x₀ alone both rows have one direction.
TEST(Constrained, FixedUnknownsMakeNoRowIndependent) {
  for (const bool is_fixed : {false, true}) {
    Projection one({0, 2, 3}, {0, 2, 3});
    const Parameters& x = one.unknowns;
    if (is_fixed) {
      one.problem.set_constant(x, 1);
      one.problem.set_constant(x, 2);
    }
    one.problem.add_equality(x[0] + x[1] - 3.0, {.label = "first"});
    one.problem.add_equality(x[0] + x[2] - 4.0, {.label = "second"});
    const Summary s = solve(one.problem);
    ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
    EXPECT_EQ(s.constrained.constraints.at(0).redundant, 0u);
    EXPECT_EQ(s.constrained.constraints.at(1).redundant, is_fixed ? 1u : 0u);
  }
}

TEST(Constrained, CallbacksEndTheSolve) {
  for (const Method method : {Method::augmented_lagrangian, Method::barrier}) {
    Projection one({3, 4}, {0.1, -0.2});
    const Parameters& x = one.unknowns;
    one.problem.add_inequality(1.0 - square(x[0]) - square(x[1]));
    int calls = 0;
    SolverOptions options{.method = method};
    options.callback = [&](const IterationSummary& step) {
      if (step.iteration < 2) return CallbackReturn::SOLVER_CONTINUE;
      ++calls;
      return CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
    };
    const Summary s = solve(one.problem, options);
    EXPECT_EQ(s.termination, Termination::USER_SUCCESS) << name(method) << ": " << s.message;
    EXPECT_EQ(calls, 1) << name(method);
  }
}

/// A problem that cannot be solved, or has more constraints than it needs, and how it ends.
struct BadInput {
  const char* what;
  void (*add)(Problem& problem, const Parameters& x);
  Termination termination;
  ConstraintOutcome outcome;  ///< of the last label
  const char* message;        ///< part of it
};

const BadInput kBadInput[] = {
    {"inconsistent equalities",
     [](Problem& problem, const Parameters& x) {
       problem.add_equality(x[0] - 1.0, {.label = "at one"});
       problem.add_equality(x[0] - 4.0, {.label = "at four"});
     },
     Termination::INFEASIBLE, ConstraintOutcome::infeasible, "cannot be met"},
    {"an empty feasible set",
     [](Problem& problem, const Parameters& x) {
       problem.add_inequality(1.0 - square(x[0]) - square(x[1]), {.label = "disc"});
       problem.add_inequality(x[0] - 2.0, {.label = "right of the disc"});
     },
     Termination::INFEASIBLE, ConstraintOutcome::infeasible, "cannot be met"},
    {"an equality that is never 0",
     [](Problem& problem, const Parameters& x) {
       problem.add_equality(square(x[0]) + 1.0, {.label = "positive"});
     },
     Termination::INFEASIBLE, ConstraintOutcome::infeasible,
     "constraint \"positive\" #0 cannot be met"},
    {"bounds against a constraint",
     [](Problem& problem, const Parameters& x) {
       problem.set_bounds(x, 0, 0, -10, 0);
       problem.add_equality(x[0] - 1.0, {.label = "beyond the bound"});
     },
     Termination::INFEASIBLE, ConstraintOutcome::infeasible,
     "constraint \"beyond the bound\" #0 cannot be met"},
    {"redundant equalities",
     [](Problem& problem, const Parameters& x) {
       problem.add_equality(x[0] + x[1] - 1.0, {.label = "sum"});
       problem.add_equality(2.0 * x[0] + 2.0 * x[1] - 2.0, {.label = "twice the sum"});
     },
     Termination::CONVERGENCE, ConstraintOutcome::redundant, "meet the tolerances"},
    {"a constraint on fixed unknowns that holds",
     [](Problem& problem, const Parameters& x) {
       problem.set_constant(x, 0);
       problem.add_equality(x[0], {.label = "fixed"});
     },
     Termination::CONVERGENCE, ConstraintOutcome::fixed, "meet the tolerances"},
    {"a constraint on fixed unknowns that does not hold",
     [](Problem& problem, const Parameters& x) {
       problem.set_constant(x, 0);
       problem.add_inequality(x[0] - 3.0, {.label = "fixed"});
     },
     Termination::INFEASIBLE, ConstraintOutcome::infeasible,
     "constraint \"fixed\" #0 reads only fixed unknowns and is violated by 3"},
};

TEST(Constrained, BadInputEndsWithItsName) {
  for (const BadInput& bad : kBadInput) {
    SCOPED_TRACE(bad.what);
    Projection one({0, 2});
    bad.add(one.problem, one.unknowns);
    const Summary s = solve(one.problem);
    EXPECT_EQ(s.termination, bad.termination) << s.message;
    EXPECT_NE(s.message.find(bad.message), std::string::npos) << s.message;
    ASSERT_FALSE(s.constrained.constraints.empty());
    EXPECT_EQ(s.constrained.constraints.back().outcome, bad.outcome);
    const bool infeasible = bad.termination == Termination::INFEASIBLE;
    EXPECT_EQ(s.constrained.infeasible.empty(), !infeasible);
    EXPECT_EQ(s.is_solution_usable(), !infeasible);
    EXPECT_EQ(to_json(s).find("\"infeasible\"") == std::string::npos, !infeasible);
    const std::string named = infeasible ? s.constrained.infeasible : "augmented_lagrangian";
    EXPECT_NE(s.full_report().find(named), std::string::npos);
  }
}

TEST(Constrained, OtherMethodsRefuse) {
  for (const Method method : {Method::levenberg_marquardt, Method::dogleg, Method::lbfgs}) {
    Projection one({0, 2});
    one.problem.add_equality(one.unknowns[0] - 1.0);
    try {
      solve(one.problem, {.method = method});
      FAIL() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Unsupported);
      EXPECT_NE(std::string(error.what()).find("use augmented_lagrangian"), std::string::npos);
    }
  }
}

TEST(Constrained, RefusesWhatIsNoConstraint) {
  Projection one({0, 2});
  const Parameters x = one.unknowns;
  EXPECT_THROW(one.problem.add_equality(literal(1)), Error);
  EXPECT_THROW(one.problem.add_equalities(
                   2, [=](Element e) { return x[e.index(0)]; },
                   {.indices = std::vector<std::uint32_t>{0, 1}, .loss = Loss::huber(1)}),
               Error);
  EXPECT_EQ(one.problem.constraint_count(), 0u);
  EXPECT_EQ(solve(one.problem).method, Method::levenberg_marquardt);
}

TEST(Constrained, ReportsHaveTheConditions) {
  Projection one({3, 4});
  one.problem.add_equality(square(one.unknowns[0]) + square(one.unknowns[1]) - 1.0,
                           {.label = "circle"});
  const Summary s = solve(one.problem);
  const auto json = nlohmann::json::parse(to_json(s))["constraints"];
  EXPECT_EQ(json["outer_iterations"], s.constrained.outer_iterations);
  EXPECT_EQ(json["stationarity"], s.constrained.kkt.stationarity);
  EXPECT_EQ(json["feasibility"], s.constrained.kkt.feasibility);
  EXPECT_EQ(json["blocks"][0]["label"], "circle");
  EXPECT_EQ(json["blocks"][0]["kind"], "equality");
  EXPECT_EQ(json["blocks"][0]["outcome"], "active");
  EXPECT_EQ(json["blocks"][0]["multipliers"].size(), 1u);
  const std::string report = s.full_report();
  for (const char* part : {"Outer iterations", "Largest violation", "Gradient of the Lagrangian",
                           "circle", "augmented_lagrangian"})
    EXPECT_NE(report.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace topograd
