// The barrier method: closed forms, points that stay inside, and what it refuses.
#include <gtest/gtest.h>

#include "../../../frontend/manifold.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/sensitivity.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/summary.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

constexpr double kClose = 1e-8;

/// The point of a set that is closest to `target`, from a start inside of the set.
struct Projection {
  Projection(std::vector<double> to, std::vector<double> from)
      : target(std::move(to)), x(std::move(from)) {
    unknowns = problem.add_parameters(x);
    for (std::size_t k = 0; k < x.size(); ++k) problem.add_residual(unknowns[k] - target[k]);
  }

  std::vector<double> target, x;
  Problem problem;
  Parameters unknowns;
};

SolverOptions barrier() { return {.method = Method::barrier}; }

/// Solves, and returns the least value of `c` at all points that a callback sees.
double least_of(Projection& one, const std::function<double(const std::vector<double>&)>& c) {
  double least = c(one.x);
  SolverOptions options = barrier();
  options.update_state_every_iteration = true;
  options.callback = [&](const IterationSummary&) {
    least = std::min(least, c(one.x));
    return CallbackReturn::SOLVER_CONTINUE;
  };
  EXPECT_EQ(solve(one.problem, options).termination, Termination::CONVERGENCE);
  return least;
}

TEST(Barrier, ReachesTheClosestPointOfADisc) {
  Projection one({3, 4}, {0.1, -0.2});
  const Parameters& x = one.unknowns;
  one.problem.add_inequality(1.0 - square(x[0]) - square(x[1]), {.label = "disc"});
  one.problem.add_inequality(x[0] + 2.0, {.label = "far"});
  const Summary s = solve(one.problem, barrier());
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_EQ(s.method, Method::barrier);
  EXPECT_EQ(s.step_method, Method::newton);
  EXPECT_EQ(s.energies, 0u);  // barriers are no energies of the problem
  EXPECT_EQ(s.residuals, 2u);
  EXPECT_NEAR(one.x[0], 0.6, kClose);
  EXPECT_NEAR(one.x[1], 0.8, kClose);
  EXPECT_NEAR(s.final_cost, 8, 1e-7);
  EXPECT_GT(1 - one.x[0] * one.x[0] - one.x[1] * one.x[1], 0);
  const auto& found = s.constrained.constraints;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].outcome, ConstraintOutcome::active);
  EXPECT_NEAR(found[0].multipliers.at(0), 2, 1e-7);  // p − x = 2 λ x
  EXPECT_EQ(found[0].largest_multiplier, found[0].multipliers.at(0));
  EXPECT_EQ(found[1].outcome, ConstraintOutcome::inactive);
  EXPECT_EQ(found[1].multipliers.at(0), 0);
  EXPECT_EQ(s.constrained.kkt.feasibility, 0);
  EXPECT_GT(s.constrained.barrier, 0);
}

TEST(Barrier, SmallCostsAreMinimisedToo) {
  for (const double unit : {1e-3, 1e-5, 1e-7}) {
    std::vector<double> x{0.1, -0.2};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    problem.add_residual(unit * (p[0] - 3.0));
    problem.add_residual(unit * (p[1] - 4.0));
    problem.add_inequality(1.0 - square(p[0]) - square(p[1]));
    const Summary s = solve(problem, barrier());
    ASSERT_EQ(s.termination, Termination::CONVERGENCE) << unit << ": " << s.message;
    EXPECT_NEAR(x[0], 0.6, kClose) << unit;
    EXPECT_NEAR(x[1], 0.8, kClose) << unit;
  }
}

// The weights of barriers and their extrapolation follow the unit of a cost below 1.
TEST(Barrier, TheUnitOfTheCostChangesNoStep) {
  const auto steps = [](double unit) {
    std::vector<double> x{0.1, -0.2};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    problem.add_residual(unit * (p[0] - 3.0) / 8.0);
    problem.add_residual(unit * (p[1] - 4.0) / 8.0);
    problem.add_inequality(1.0 - square(p[0]) - square(p[1]));
    problem.add_inequality(0.7 - p[1]);
    const Summary s = solve(problem, barrier());
    EXPECT_EQ(s.termination, Termination::CONVERGENCE) << unit << ": " << s.message;
    return std::pair(s.constrained.outer_iterations, s.num_iterations());
  };
  const auto plain = steps(1);
  for (const double unit : {0x1p-5, 0x1p-10, 0x1p-20}) EXPECT_EQ(steps(unit), plain) << unit;
}

// An equality beyond inequalities, whatever the cost weighs.
TEST(Barrier, InfeasibleProblemsEndInAnyUnit) {
  for (const double unit : {1e-6, 1e-3, 1.0, 1e3, 1e6}) {
    std::vector<double> x{0.1, -0.2};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    problem.add_residual(unit * (p[0] - 3.0));
    problem.add_residual(unit * (p[1] - 4.0));
    problem.add_inequality(1.0 - square(p[0]) - square(p[1]), {.label = "disc"});
    problem.add_inequality(0.5 - p[0], {.label = "left"});
    problem.add_equality(p[0] - 2.0, {.label = "at two"});
    const Summary s = solve(problem, barrier());
    EXPECT_EQ(s.termination, Termination::INFEASIBLE) << unit << ": " << s.message;
    EXPECT_LE(s.constrained.outer_iterations, 30) << unit;
    EXPECT_NEAR(x[0], 0.5, 1e-2) << unit;
  }
}

// Two equalities that exclude each other end it, however far the inequality is. The nearer it is,
// the longer its barrier may be what keeps the violation.
TEST(Barrier, EqualitiesThatExcludeEachOtherAreInfeasible) {
  for (const auto& [far, most] : {std::pair(1e1, 60), {1e4, 60}, {1e8, 15}}) {
    for (const double unit : {1.0, 1e-6, 1e6}) {
      std::vector<double> x{0.1 * unit, 0.7 * unit};
      Problem problem;
      const Parameters p = problem.add_parameters(x);
      const Value a = p[0] / unit, b = p[1] / unit;
      problem.add_residual(a - 3.0);
      problem.add_residual(b - 0.5);
      problem.add_inequality(far - a, {.label = "far"});
      problem.add_equality(square(a) + square(b) - 4.0, {.label = "circle of 2"});
      problem.add_equality(square(a) + square(b) - 1.0, {.label = "circle of 1"});
      const Summary s = solve(problem, barrier());
      EXPECT_EQ(s.termination, Termination::INFEASIBLE) << far << ": " << s.message;
      EXPECT_LE(s.constrained.outer_iterations, most) << far;
      EXPECT_NEAR(std::hypot(x[0], x[1]) / unit, std::sqrt(2.5), 1e-2) << far;
    }
  }
}

// The equality and m inequalities are a distance d apart, which is left wherever the barrier
// begins: at the end m μ is at most a twentieth of the penalty times (x + d)², so that x² + 2 x d
// is at most a tenth of (x + d)².
TEST(Barrier, InfeasibleProblemsLeaveTheLeastViolation) {
  for (const double distance : {0.003, 0.03, 0.3, 3.0, 30.0}) {
    for (const int count : {1, 20}) {
      for (const double first : {0.0, 1e2, 1e4, 1e6}) {
        SCOPED_TRACE(testing::Message() << distance << " " << count << " " << first);
        std::vector<double> x{1};
        Problem problem;
        const Parameters p = problem.add_parameters(x);
        problem.add_residual(0.01 * (p[0] - 1.0));
        for (int k = 0; k < count; ++k) problem.add_inequality(p[0] + 0.0);
        problem.add_equality(p[0] + distance);
        SolverOptions options = barrier();
        options.initial_barrier = first;
        const Summary s = solve(problem, options);
        EXPECT_EQ(s.termination, Termination::INFEASIBLE) << s.message;
        EXPECT_LE(s.constrained.outer_iterations, 30);
        EXPECT_LE(x[0] / distance, 1 / std::sqrt(0.9) - 1);
      }
    }
  }
}

// Inequalities of fixed unknowns keep no equality violated, and change no penalty. Penalties are
// called vain after five minimisations.
TEST(Barrier, FixedInequalitiesHoldNoViolation) {
  const auto iterations = [](int rows, double first, double weight) {
    std::vector<double> x{1}, y{2};
    Problem problem;
    const Parameters p = problem.add_parameters(x), fixed = problem.add_parameters(y);
    problem.set_constant(fixed, 0);
    problem.add_residual(weight * (p[0] - 1.0));
    problem.add_inequality(p[0] + 0.0);
    for (int k = 0; k < rows; ++k) problem.add_inequality(fixed[0] - 1.0);
    problem.add_equality(p[0] + 0.3);
    SolverOptions options = barrier();
    options.initial_barrier = first;
    const Summary s = solve(problem, options);
    EXPECT_EQ(s.termination, Termination::INFEASIBLE) << s.message;
    return s.constrained.outer_iterations;
  };
  for (const double first : {0.0, 1e2, 1e4}) {
    for (const double weight : {1e-6, 0.01}) {
      EXPECT_GT(iterations(0, first, weight), 5) << first;
      EXPECT_EQ(iterations(1000, first, weight), iterations(0, first, weight)) << first;
    }
  }
}

/// The objective ½ (x − target)² with x <= 1, after one minimisation: its barrier, and the share of
/// the gradient of both that it has left.
struct FirstMinimisation {
  ///   asked  for the barrier; 0: the one that the solve begins with
  FirstMinimisation(double target, double start, double asked = 0) {
    Projection one({target}, {start});
    one.problem.add_inequality(1.0 - one.unknowns[0]);
    SolverOptions options = barrier();
    options.max_outer_iterations = 1;
    options.initial_barrier = asked;
    mu = solve(one.problem, options).constrained.barrier;
    const auto slope = [&](double x) { return x - target + mu / (1 - x); };
    left = std::abs(slope(one.x[0]) / slope(start));
  }
  double mu = 0, left = 0;
};

// At a start beside the central path the barrier is as steep as the objective, μ / c = |x −
// target|, but between 1e-3 and 1e3 times the objective.
TEST(Barrier, TheFirstOneIsAsSteepAsTheObjective) {
  EXPECT_NEAR(FirstMinimisation(-3, 0).mu, 3, 1e-9);
  EXPECT_NEAR(FirstMinimisation(-1e4, -9999).mu, 1e3 * 0.5, 1e-9);
  EXPECT_NEAR(FirstMinimisation(-1e-5, 1 - 1e-9).mu, 1e-3 * 0.5, 1e-7);
}

TEST(Barrier, TheFirstMinimisationLeavesATenthOfTheGradient) {
  double most = 0;
  for (int k = 1; k < 200; ++k) {
    const double left = FirstMinimisation(3, 1 - 0.1 * k, 0.5).left;
    EXPECT_LE(left, 0.1 + 1e-9) << k;
    most = std::max(most, left);
  }
  EXPECT_GT(most, 0.05) << "none is near";
}

// On the unit sphere with x₀ >= 0.6 the point closest to p = (0, 1, 2) is (0.6, 0.8 p / ‖p‖), and
// the parts of x − p and of (1, 0, 0) along the sphere are parallel there, with the factor 0.75 √5.
TEST(Barrier, MultipliersOnASphereHaveTheirClosedForm) {
  std::vector<double> x = {0.8, 0.6, 0};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 3);
  problem.set_manifold(p, Manifold::sphere(3));
  for (int k = 0; k < 3; ++k) problem.add_residual(p(0, k) - static_cast<double>(k));
  problem.add_inequality(p(0, 0) - 0.6);
  const Summary s = solve(problem, barrier());
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(x[0], 0.6, kClose);
  EXPECT_NEAR(x[1], 0.8 / std::sqrt(5), kClose);
  EXPECT_NEAR(x[2], 1.6 / std::sqrt(5), kClose);
  EXPECT_NEAR(s.constrained.multipliers.at(0), 0.75 * std::sqrt(5), 1e-7);
  EXPECT_LE(s.constrained.kkt.stationarity, 1e-7);
}

// A barrier of a large cost outweighs the penalties: what they leave is no least violation.
TEST(Barrier, LargeCostsAreNotInfeasible) {
  for (const double unit : {1.0, 1e5, 1e7, 1e9}) {
    std::vector<double> x{3, 4, 1};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    for (int k = 0; k < 3; ++k) problem.add_residual(unit * (p[k] - (3.0 + k)));
    problem.add_equality(p[0] - p[1] - 1.0);
    problem.add_inequality(6.0 - p[2]);
    problem.add_inequality(30.0 - square(p[0]) - square(p[1]) - square(p[2]));
    const Summary s = solve(problem, barrier());
    ASSERT_EQ(s.termination, Termination::CONVERGENCE) << unit << ": " << s.message;
    // SciPy's SLSQP.
    EXPECT_NEAR(x[0], 3.20194468, 1e-6) << unit;
    EXPECT_NEAR(x[1], 2.20194468, 1e-6) << unit;
    EXPECT_NEAR(x[2], 3.85992097, 1e-6) << unit;
  }
}

// Rows that read only fixed unknowns have no multiplier.
TEST(Barrier, FixedInequalitiesChangeNothing) {
  std::vector<double> fixed = {5, 0};
  Projection one({3, 4}, {0.1, -0.2});
  const Parameters& x = one.unknowns;
  const Parameters y = one.problem.add_parameters(fixed, 2);
  one.problem.set_constant(y, 0, 0b11);
  one.problem.add_inequality(1.0 - square(x[0]) - square(x[1]), {.label = "disc"});
  one.problem.add_inequality(y(0, 0) - 1.0, {.label = "inside"});
  one.problem.add_inequality(y(0, 1), {.label = "on the edge"});
  const Summary s = solve(one.problem, barrier());
  EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(one.x[0], 0.6, kClose);
  EXPECT_NEAR(one.x[1], 0.8, kClose);
  EXPECT_LE(s.constrained.kkt.complementarity, 1e-7);
  ASSERT_EQ(s.constrained.constraints.size(), 3u);
  EXPECT_NEAR(s.constrained.constraints[0].multipliers.at(0), 2, 1e-6);  // p − x = 2 λ x
  EXPECT_EQ(s.constrained.constraints[1].multipliers.at(0), 0);
  EXPECT_EQ(s.constrained.constraints[2].multipliers.at(0), 0);
}

// From (x − 3) + μ / (1 − x) = 0 the barrier begins with that μ.
TEST(Barrier, StartsOnTheCentralPathGoOn) {
  const double mu = 1e-6;
  const auto solved = [&](double asked) {
    Projection one({3}, {2 - std::sqrt(1 + mu)});
    one.problem.add_inequality(1.0 - one.unknowns[0]);
    SolverOptions options = barrier();
    options.initial_barrier = asked;
    const Summary s = solve(one.problem, options);
    EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
    EXPECT_NEAR(one.x[0], 1, kClose);
    return s.constrained.outer_iterations;
  };
  EXPECT_EQ(solved(0), solved(mu));
  EXPECT_LT(solved(0), solved(1e-3));
}

TEST(Barrier, EveryPointIsInside) {
  // The square root of c is not defined for c < 0, and the target is far beyond.
  Projection one({30, 40}, {0.1, -0.2});
  const Parameters& x = one.unknowns;
  one.problem.add_inequality(sqrt(1.0 - square(x[0]) - square(x[1])));
  EXPECT_GT(least_of(one, [](const auto& at) { return 1 - at[0] * at[0] - at[1] * at[1]; }), 0);
  EXPECT_NEAR(std::hypot(one.x[0], one.x[1]), 1, 1e-6);

  Projection corner({2, 2}, {-5, -7});  // two constraints hold x, and a third one nearly does
  const Parameters& y = corner.unknowns;
  corner.problem.add_inequality({1.0 - y[0], 0.5 - y[1], 1.5001 - y[0] - y[1]});
  const double least = least_of(corner, [](const auto& at) {
    return std::min({1 - at[0], 0.5 - at[1], 1.5001 - at[0] - at[1]});
  });
  EXPECT_GT(least, 0);
  EXPECT_NEAR(corner.x[0], 1, kClose);
  EXPECT_NEAR(corner.x[1], 0.5, kClose);
}

TEST(Barrier, EqualitiesBoundsAndLossesHold) {
  // ½ ρ(x₀²) with Huber's ρ, x₁ at its bound, and an equality between them; the inequality holds
  // x₂, and x₃ is fixed.
  std::vector<double> x = {10, 0, 0, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0], {.loss = Loss::huber(1)});
  problem.add_residual(p[1] - 5.0);
  problem.add_residual(p[2] - 7.0);
  problem.set_bounds(p, 1, 0, -1, 1);
  problem.set_constant(p, 3);
  problem.add_equality(p[0] - p[1] - p[3], {.label = "link"});
  problem.add_inequality(4.0 - p[2] * p[3], {.label = "product"});
  const Summary s = solve(problem, barrier());
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(x[1], 1, kClose);
  EXPECT_NEAR(x[0], 3, kClose);
  EXPECT_NEAR(x[2], 2, kClose);
  EXPECT_EQ(x[3], 2);
  EXPECT_NEAR(s.constrained.multipliers.at(0), 1, 1e-6);    // the slope of Huber's loss beyond 1
  EXPECT_NEAR(s.constrained.multipliers.at(1), 2.5, 1e-6);  // x₂ − 7 = −2 λ
}

TEST(Barrier, ManifoldsStay) {
  // As in Constrained.ManifoldsStay: at most half of the turn to the target.
  std::vector<double> q = {1, 0, 0, 0};
  Problem problem;
  const Parameters p = problem.add_parameters(q, 4);
  problem.set_manifold(p, Manifold::quaternion());
  const double half = 0.4;
  const std::array<double, 4> target = {std::cos(half), std::sin(half), 0, 0};
  for (int k = 0; k < 4; ++k) problem.add_residual(p(0, k) - target[static_cast<std::size_t>(k)]);
  problem.add_inequality(1.0 - 2.0 * (square(p(0, 1)) + square(p(0, 2))) - std::cos(half));
  const Summary s = solve(problem, barrier());
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_EQ(s.step_method, Method::lbfgs);
  EXPECT_NEAR(q[0], std::cos(half / 2), 1e-7);
  EXPECT_NEAR(q[1], std::sin(half / 2), 1e-7);
  EXPECT_NEAR(q[2], 0, 1e-7);
  EXPECT_NEAR(q[3], 0, 1e-7);
}

TEST(Barrier, BranchesAreTracedAgain) {
  Projection one({3, 0.5}, {-2, 0});
  const Parameters& x = one.unknowns;
  // x₀ <= 1 where x₀ > 0, and x₀ >= −5 elsewhere.
  one.problem.add_inequality([x]() -> Value {
    if (x[0] > 0.0) return 1.0 - x[0];
    return x[0] + 5.0;
  });
  SolverOptions options = barrier();
  options.backend = Backend::cpu;
  const Summary s = solve(one.problem, options);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_NEAR(one.x[0], 1, kClose);
  EXPECT_NEAR(one.x[1], 0.5, kClose);
}

TEST(Barrier, ASolverFollowsUniforms) {
  Projection one({3, 4}, {0, 0});
  const Uniform r = one.problem.add_uniform(2);
  const Parameters& x = one.unknowns;
  one.problem.add_inequality(r * r - square(x[0]) - square(x[1]));
  Solver solver(one.problem, barrier());
  ASSERT_EQ(solver.solve().termination, Termination::CONVERGENCE);
  EXPECT_NEAR(one.x[0], 1.2, kClose);
  EXPECT_NEAR(one.x[1], 1.6, kClose);
  one.problem.set(r, 3);  // the solution for 2 is inside
  const Summary again = solver.solve();
  ASSERT_EQ(again.termination, Termination::CONVERGENCE) << again.message;
  EXPECT_NEAR(one.x[0], 1.8, kClose);
  EXPECT_NEAR(one.x[1], 2.4, kClose);
  EXPECT_EQ(again.shaders_compiled, 0u);

  one.problem.set(r, 1);  // the solution for 3 is outside
  EXPECT_EQ(solver.solve().termination, Termination::INFEASIBLE);
  const Summary other = solve(one.problem, {.method = Method::augmented_lagrangian});
  ASSERT_EQ(other.termination, Termination::CONVERGENCE) << other.message;
  EXPECT_NEAR(one.x[0], 0.6, 1e-7);
}

TEST(Barrier, DerivativesOfTheSolutionSeeMultipliers) {
  // x = r p / ‖p‖: ∂x/∂r = p / ‖p‖, while the disc holds x and the line 0.2 r − 0.5 does not.
  Projection one({3, 4}, {0, 0});
  const Uniform r = one.problem.add_uniform(1);
  const Parameters& x = one.unknowns;
  one.problem.add_inequality(square(r) - square(x[0]) - square(x[1]));
  one.problem.add_inequality(x[0] + 0.5 - 0.2 * r);
  ASSERT_EQ(solve(one.problem, barrier()).termination, Termination::CONVERGENCE);
  Sensitivity sensitivity(one.problem);
  const Eigen::VectorXd dx = sensitivity.jvp(r, 1);
  EXPECT_NEAR(dx[0], 0.6, 1e-6);
  EXPECT_NEAR(dx[1], 0.8, 1e-6);
}

/// A problem that no barrier can solve, and its error.
struct BadInput {
  const char* what;
  void (*add)(Problem& problem, const Parameters& x);
  Termination termination;
  std::vector<ConstraintOutcome> outcomes;  ///< by label
  const char* message;                      ///< part of it
};

const BadInput kBadInput[] = {
    {"a start outside, with an equality",
     [](Problem& problem, const Parameters& x) {
       problem.add_equality(x[0] - 4.0, {.label = "at four"});
       problem.add_inequality(1.0 - square(x[0]) - square(x[1]), {.label = "disc"});
       problem.add_inequality(x[0] + 5.0, {.label = "met"});
     },
     Termination::INFEASIBLE,
     {ConstraintOutcome::violated, ConstraintOutcome::outside, ConstraintOutcome::inactive},
     "constraint \"disc\" #0 is -3 at the start"},
    {"a start on the edge",
     [](Problem& problem, const Parameters& x) { problem.add_inequality(x[0], {.label = "edge"}); },
     Termination::INFEASIBLE,
     {ConstraintOutcome::outside},
     "constraint \"edge\" #0 is 0 at the start"},
    {"no number at the start",
     [](Problem& problem, const Parameters& x) {
       problem.add_inequality(log(x[0] - 1.0), {.label = "log"});
     },
     Termination::INFEASIBLE,
     {ConstraintOutcome::outside},
     "constraint \"log\" #0 is"},
    {"an equality beyond an inequality",
     [](Problem& problem, const Parameters& x) {
       problem.add_equality(x[0] - 4.0, {.label = "at four"});
       problem.add_inequality(1.0 - x[0], {.label = "below one"});
     },
     Termination::INFEASIBLE,
     {ConstraintOutcome::infeasible, ConstraintOutcome::redundant},
     "constraint \"at four\" #0 cannot be met"},
    {"redundant equalities",
     [](Problem& problem, const Parameters& x) {
       problem.add_equality(x[0] + x[1] - 1.0, {.label = "sum"});
       problem.add_equality(2.0 * x[0] + 2.0 * x[1] - 2.0, {.label = "twice the sum"});
       problem.add_inequality(1.0 - x[0], {.label = "below one"});
     },
     Termination::CONVERGENCE,
     {ConstraintOutcome::active, ConstraintOutcome::redundant, ConstraintOutcome::inactive},
     "meet the tolerances"},
    {"an inequality on fixed unknowns that is 0",
     [](Problem& problem, const Parameters& x) {
       problem.set_constant(x, 0);
       problem.add_inequality(x[0], {.label = "fixed"});
     },
     Termination::CONVERGENCE,
     {ConstraintOutcome::fixed},
     "meet the tolerances"},
    {"two inequalities on fixed unknowns that do not hold alike",
     [](Problem& problem, const Parameters& x) {
       problem.set_constant(x, 0);
       problem.add_inequality(x[0] - 3.0, {.label = "first"});
       problem.add_inequality(x[0] - 3.0, {.label = "second"});
     },
     Termination::INFEASIBLE,
     {ConstraintOutcome::infeasible, ConstraintOutcome::infeasible},
     "constraint \"first\" #0 reads only fixed unknowns and is violated by 3"},
    {"an inequality on fixed unknowns that does not hold",
     [](Problem& problem, const Parameters& x) {
       problem.set_constant(x, 0);
       problem.add_inequality(x[0] - 3.0, {.label = "fixed"});
     },
     Termination::INFEASIBLE,
     {ConstraintOutcome::infeasible},
     "constraint \"fixed\" #0 reads only fixed unknowns and is violated by 3"},
};

TEST(Barrier, BadInputEndsWithItsName) {
  for (const BadInput& bad : kBadInput) {
    SCOPED_TRACE(bad.what);
    Projection one({0, 0.5}, {0, 2});
    bad.add(one.problem, one.unknowns);
    const std::vector<double> start = one.x;
    const Summary s = solve(one.problem, barrier());
    EXPECT_EQ(s.termination, bad.termination) << s.message;
    EXPECT_NE(s.message.find(bad.message), std::string::npos) << s.message;
    ASSERT_EQ(s.constrained.constraints.size(), bad.outcomes.size());
    for (std::size_t k = 0; k < bad.outcomes.size(); ++k) {
      const ConstraintSummary& found = s.constrained.constraints[k];
      EXPECT_EQ(found.outcome, bad.outcomes[k]) << k;
      EXPECT_EQ(found.redundant, bad.outcomes[k] == ConstraintOutcome::redundant ? 1u : 0u) << k;
    }
    const bool infeasible = bad.termination == Termination::INFEASIBLE;
    EXPECT_EQ(s.constrained.infeasible.empty(), !infeasible);
    EXPECT_EQ(s.is_solution_usable(), !infeasible);
    if (s.constrained.outer_iterations == 0) {
      EXPECT_EQ(one.x, start);
    }
  }
}

TEST(Barrier, RefusesWhatItCannotDo) {
  const auto refusal = [](const SolverOptions& options) -> std::string {
    Projection one({0, 2}, {2, 2});
    one.problem.add_inequality(one.unknowns[0] - 1.0);
    try {
      solve(one.problem, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Unsupported);
      return error.what();
    }
    return "";
  };
  SolverOptions single = barrier(), guarded = barrier(), resumed = barrier();
  single.precision = Precision::f32;
  guarded.domain = DomainPolicy::guarded;
  resumed.resume = "nowhere";
  EXPECT_NE(refusal(single).find("expected precision f64, got f32"), std::string::npos);
  EXPECT_NE(refusal(guarded).find("expected domain mathematical, got guarded"), std::string::npos);
  EXPECT_NE(refusal(resumed).find("checkpoints"), std::string::npos);
  EXPECT_NE(refusal({.method = Method::levenberg_marquardt}).find("barrier from a start inside"),
            std::string::npos);
}

TEST(Barrier, ReportsHaveIt) {
  Projection one({3, 4}, {0, 0});
  one.problem.add_inequality(1.0 - one.unknowns[0], {.label = "wall"});
  const Summary s = solve(one.problem, barrier());
  const auto json = nlohmann::json::parse(to_json(s))["constraints"];
  EXPECT_EQ(json["barrier"], s.constrained.barrier);
  EXPECT_EQ(json["blocks"][0]["outcome"], "active");
  const std::string report = s.full_report();
  for (const char* part : {"barrier", "wall", "Largest violation"})
    EXPECT_NE(report.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace topograd
