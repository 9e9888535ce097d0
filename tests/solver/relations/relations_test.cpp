// Verdicts of solves against an independent judge, and the same problem in other forms.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"
#include "../../support/judge.hpp"
#include "../../support/way.hpp"
#include "disguise.hpp"
#include "random_problems.hpp"

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <vector>

namespace topograd {
namespace {

using test::Real;

constexpr int kSteps = 500;

/// Problems of each test: its own number, or that of TOPOGRAD_VERDICT_PROBLEMS.
unsigned problem_count(unsigned usual) {
  const char* const asked = std::getenv("TOPOGRAD_VERDICT_PROBLEMS");
  return asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : usual;
}

/// One way to minimise.
using test::Way;

std::vector<Way> ways() {
  const auto options = [](Method method, LinearSolver solver) {
    return SolverOptions{.backend = Backend::cpu,
                         .method = method,
                         .linear_solver = solver,
                         .max_iterations = kSteps};
  };
  const Method lm = Method::levenberg_marquardt;
  std::vector<Way> out;
  for (const LinearSolver solver : {LinearSolver::automatic, LinearSolver::cholesky,
                                    LinearSolver::pcg, LinearSolver::dense, LinearSolver::schur})
    out.push_back({"lm " + std::string(name(solver)), options(lm, solver)});
  out.push_back({"gn", options(Method::gauss_newton, LinearSolver::automatic), true, false});
  out.push_back({"gn pcg", options(Method::gauss_newton, LinearSolver::pcg), true, false});
  out.push_back({"dogleg", options(Method::dogleg, LinearSolver::automatic)});
  out.push_back({"subspace", options(Method::dogleg, LinearSolver::automatic)});
  out.back().options.dogleg_type = DoglegType::subspace;
  out.push_back({"lbfgs", options(Method::lbfgs, LinearSolver::automatic), true, false});
  out.push_back({"newton", options(Method::newton, LinearSolver::automatic), false, false});
  out.push_back({"newton pcg", options(Method::newton, LinearSolver::pcg), false, false});
  out.push_back({"nonmonotonic", options(lm, LinearSolver::automatic), true, false});
  out.back().options.use_nonmonotonic_steps = true;
  out.push_back({"eisenstat_walker", options(lm, LinearSolver::pcg)});
  out.back().options.forcing_sequence = ForcingSequence::eisenstat_walker;
  out.push_back({"plain steps", options(lm, LinearSolver::automatic)});
  out.back().options.rescale_steps = false;
  out.back().options.jacobi_scaling = false;
  out.back().settles = false;
  out.push_back({"as Ceres", options(lm, LinearSolver::automatic), true, false});
  out.back().options.scale_free = false;
  out.push_back({"f32", options(lm, LinearSolver::automatic), true, false});
  out.back().options.precision = Precision::f32;
  out.push_back({"mixed", options(lm, LinearSolver::automatic), true, false});
  out.back().options.precision = Precision::mixed;
  return out;
}

SolverOptions usual() { return ways().front().options; }

// The judge itself: its derivatives against differences of its cost, which know no rule.
TEST(Judge, KnowsTheGradient) {
  for (unsigned seed = 0; seed < 3 * test::random_kind_count(); ++seed) {
    const auto p = test::random_problem(seed);
    if (p->problem.has_manifolds() || p->kind == "uneven") continue;
    std::vector<double> start(p->problem.parameter_count());
    p->problem.read_x(start);
    std::vector<Real> x(start.begin(), start.end());
    for (std::size_t k = 0; k < x.size(); ++k) x[k] += 0.013L * static_cast<Real>(k % 7 + 1);
    const test::Linearized at = test::linearize(p->problem, x);
    for (std::size_t j = 0; j < at.scalar.size(); ++j) {
      const Real h = 1e-7L / std::max<Real>(1, at.norms[j]);
      std::vector<Real> up = x, down = x;
      up[at.scalar[j]] += h;
      down[at.scalar[j]] -= h;
      const Real slope =
          (test::cost_at(p->problem, up) - test::cost_at(p->problem, down)) / (2 * h);
      EXPECT_NEAR(static_cast<double>(at.gradient[j] / at.norms[j]),
                  static_cast<double>(slope / at.norms[j]),
                  1e-8 * static_cast<double>(std::sqrt(2 * at.cost)))
          << p->name() << ", coordinate " << j;
    }
  }
}

// It sees a point that is none.
TEST(Judge, SeesWhatIsNoMinimum) {
  std::vector<double> x = {1, 2};
  Problem problem;
  const Parameters u = problem.add_parameters(x);
  problem.add_residual(u[0] - 3.0);
  problem.add_residual(2.0 * (u[1] + u[0]));
  Summary said;
  said.termination = Termination::CONVERGENCE;
  said.method = Method::levenberg_marquardt;
  said.message = "function tolerance reached";
  said.initial_cost = 100;
  // r = (-2, 6), J = ((1, 0), (2, 2)): g = (10, 12), cost 20; cosine 12 / (2 √40).
  said.final_cost = 20;
  said.optimality = 6 / std::sqrt(40.0);
  EXPECT_TRUE(test::contradiction(problem, {}, said).starts_with("cosine 9.487e-01 >"));
  said.final_cost = 21;
  EXPECT_TRUE(test::contradiction(problem, {}, said).starts_with("cost 20, final_cost says 21"));
  x = {3, -3};  // the minimum
  said.final_cost = 0;
  said.optimality = 0;
  EXPECT_EQ(test::contradiction(problem, {}, said), "");
}

bool is_curved_valley(const Summary& summary) {
  return summary.message.find("a curved valley") != std::string::npos;
}

/// Returns the share of the cost that a long solve with a small tolerance takes from it.
double left_to_gain(Problem& problem) {
  SolverOptions options = usual();
  options.function_tolerance = 1e-13;
  options.max_iterations = 20000;
  const Summary summary = solve(problem, options);
  return 1 - summary.final_cost / summary.initial_cost;
}

TEST(Verdict, ConvergenceIsWhereTheGradientVanishes) {
  const std::vector<Way> all = ways();
  for (unsigned seed = 0; seed < problem_count(460); ++seed) {
    Real best = HUGE_VALL;
    for (const Way& way : all) {
      const auto p = test::random_problem(seed);
      if (!way.knows_manifolds && p->problem.has_manifolds()) continue;
      const Summary summary = solve(p->problem, way.options);
      const std::string where = p->name() + ", " + way.name + ": " + summary.message;
      if (p->smooth) {
        EXPECT_EQ(test::contradiction(p->problem, way.options, summary), "") << where;
      }
      if (way.settles && p->smooth && is_curved_valley(summary)) {
        EXPECT_GT(left_to_gain(p->problem), usual().function_tolerance) << where;
      } else if (way.settles && p->smooth) {
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
      }
      if (!p->convex || !way.settles) continue;
      std::vector<double> x(p->problem.parameter_count());
      p->problem.read_x(x);
      const Real cost = test::cost_at(p->problem, std::vector<Real>(x.begin(), x.end()));
      best = std::min(best, cost);
      EXPECT_LE(static_cast<double>(cost), static_cast<double>(best) * (1 + 1e-3)) << where;
    }
  }
}

// The last step falls far into a corner of the box, where no direction is left.
TEST(Verdict, ACornerEndsLooselySolvedSteps) {
  for (const unsigned seed : {2008u, 5895u, 8701u, 19189u}) {
    const auto p = test::random_problem(seed);
    const SolverOptions options = {.backend = Backend::cpu,
                                   .linear_solver = LinearSolver::pcg,
                                   .max_iterations = kSteps,
                                   .forcing_sequence = ForcingSequence::eisenstat_walker};
    const Summary summary = solve(p->problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE)
        << p->name() << ": " << summary.message;
    EXPECT_EQ(test::contradiction(p->problem, options, summary), "") << p->name();
  }
}

// Damping hides the step along nearly equal columns: the cost stood at 47.5 of 34.7.
TEST(Verdict, NonmonotonicStepsAreComparedWithOnesWithoutDamping) {
  for (const unsigned seed : {15886u, 11957u, 1814u}) {
    const auto p = test::random_problem(seed);
    SolverOptions options = usual();
    options.use_nonmonotonic_steps = true;
    const Summary summary = solve(p->problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << p->name();
    EXPECT_EQ(test::contradiction(p->problem, options, summary), "")
        << p->name() << ": " << summary.message;
  }
}

// A step without damping along two equal columns would be rounding divided by rounding: it went to
// 1e14, where the rounding of the residuals lowered the cost.
TEST(Verdict, EqualColumnsGiveNoDirection) {
  const auto p = test::random_problem(11479);
  ASSERT_EQ(p->kind, "deficient");
  test::Disguised far(p->problem, {.start = [](std::size_t k, double) {
                        return 1e6 * (1 + 0.3 * static_cast<double>(k));
                      }});
  const Summary summary = solve(far.problem(), usual());
  EXPECT_EQ(test::contradiction(far.problem(), usual(), summary), "") << summary.message;
  for (const IterationSummary& step : summary.iterations) EXPECT_LT(step.step_norm, 1e7);
}

TEST(Verdict, IsThatOfTheSameProblemInDisguise) {
  for (unsigned seed = 0; seed < problem_count(230); ++seed) {
    const auto p = test::random_problem(seed);
    test::Disguised plain(p->problem, {});
    const Summary expected = solve(plain.problem(), usual());
    const Real best = test::cost_at(p->problem, plain.plain());
    for (const test::Disguise& as : test::disguises(p->problem.parameter_count())) {
      if (!p->can_shift && as.name.starts_with("shift")) continue;
      test::Disguised other(p->problem, as);
      const Summary summary = solve(other.problem(), usual());
      const std::string where =
          p->name() + ", " + as.name + ": " + summary.message + "; plain: " + expected.message;
      if (!p->smooth) continue;
      // Steps within bounds may lead into a valley that others do not meet.
      if (is_curved_valley(summary) && as.name.starts_with("bounds")) {
        EXPECT_GT(left_to_gain(other.problem()), usual().function_tolerance) << where;
        continue;
      }
      EXPECT_EQ(summary.termination, expected.termination) << where;
      if (!as.has_no_weight) {
        EXPECT_EQ(test::contradiction(other.problem(), usual(), summary), "") << where;
      }
      // Steps within bounds take other ways, which may lead to other minima.
      if (as.has_slack_bounds && !p->convex) continue;
      const double cost = static_cast<double>(test::cost_at(p->problem, other.plain()));
      EXPECT_NEAR(cost, static_cast<double>(best),
                  1e-3 * static_cast<double>(best) + 1e-14 * expected.initial_cost)
          << where;
    }
  }
}

// The minimum of a convex problem is the same from anywhere.
TEST(Verdict, ConvexProblemsEndAtTheirMinimumFromFarStarts) {
  for (unsigned seed = 0; seed < problem_count(230); ++seed) {
    const auto p = test::random_problem(seed);
    if (!p->convex || !p->problem.lower_bounds().empty() || p->kind == "uneven") continue;
    test::Disguised plain(p->problem, {});
    solve(plain.problem(), usual());
    const Real best = test::cost_at(p->problem, plain.plain());
    const bool well_posed = p->kind == "linear" || p->kind == "huber";
    for (const double size : {1e-15, 1e9, well_posed ? 1e15 : 1e6}) {
      for (const bool one : {true, false}) {
        const test::Disguise as = {.start = [&](std::size_t k, double) {
          return one && k > 0 ? 1.0 : size * (1 + 0.3 * static_cast<double>(k));
        }};
        test::Disguised far(p->problem, as);
        const Summary summary = solve(far.problem(), usual());
        const std::string where =
            p->name() + ", start " + std::to_string(size) + ": " + summary.message;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_EQ(test::contradiction(far.problem(), usual(), summary), "") << where;
        EXPECT_NEAR(static_cast<double>(test::cost_at(p->problem, far.plain()) / best), 1, 1e-3)
            << where;
      }
    }
  }
}

// A Solver that is used again gives the result of a new solve.
TEST(Relations, ASolverThatIsUsedAgainForgetsTheLastSolve) {
  for (unsigned seed = 0; seed < problem_count(46); ++seed) {
    for (const Way& way : ways()) {
      const auto p = test::random_problem(seed);
      if (!way.knows_manifolds && p->problem.has_manifolds()) continue;
      std::vector<double> start(p->problem.parameter_count()), first(start.size()), again(first);
      p->problem.read_x(start);
      Solver solver(p->problem, way.options);
      const Summary one = solver.solve();
      p->problem.read_x(first);
      p->problem.write_x(start);
      const Summary two = solver.solve();
      p->problem.read_x(again);
      EXPECT_EQ(one.message, two.message) << p->name() << ", " << way.name;
      EXPECT_EQ(first, again) << p->name() << ", " << way.name;
    }
  }
}

const std::set<std::string> kResumed = {"lm automatic", "dogleg", "lbfgs", "newton", "newton pcg"};

// A solve that is interrupted after a few steps and resumed ends where the whole one does.
TEST(Relations, AResumedSolveIsTheWholeOne) {
  const std::string file = std::filesystem::temp_directory_path() /
                           ("topograd_relations_" + std::to_string(::getpid()) + ".ckpt");
  for (unsigned seed = 0; seed < problem_count(23); ++seed) {
    for (const Way& way : ways()) {
      // Writing takes longer than solving: one of each kind of state.
      if (!kResumed.contains(way.name)) continue;
      const auto p = test::random_problem(seed);
      if (!way.knows_manifolds && p->problem.has_manifolds()) continue;
      SolverOptions options = way.options;
      options.components = Components::together;
      options.deterministic = true;
      std::vector<double> start(p->problem.parameter_count()), whole(start.size()), parts(whole);
      p->problem.read_x(start);
      const Summary expected = solve(p->problem, options);
      p->problem.read_x(whole);
      if (expected.num_iterations() < 3) continue;
      p->problem.write_x(start);
      SolverOptions begin = options;
      begin.max_iterations = expected.num_iterations() / 2;
      begin.checkpoint = {.file = file, .every_seconds = 1e9};
      solve(p->problem, begin);
      p->problem.write_x(start);
      SolverOptions rest = options;
      rest.resume = file;
      const Summary summary = solve(p->problem, rest);
      p->problem.read_x(parts);
      const std::string where = p->name() + ", " + way.name;
      EXPECT_EQ(summary.message, expected.message) << where;
      EXPECT_EQ(summary.num_iterations(), expected.num_iterations()) << where;
      EXPECT_EQ(parts, whole) << where;
    }
  }
  std::filesystem::remove(file);
}

// Problems side by side: minimised together, or each for itself.
TEST(Relations, ComponentsEndWhereTheyDoAlone) {
  for (const Components components : {Components::together, Components::separate}) {
    for (unsigned kind = 0; kind < test::random_kind_count(); ++kind) {
      std::vector<std::unique_ptr<test::RandomProblem>> alone;
      for (unsigned k = 0; k < 3; ++k)
        alone.push_back(
            test::random_problem(kind + k * static_cast<unsigned>(test::random_kind_count())));
      std::vector<Real> best;
      std::vector<Problem*> parts;
      for (const auto& p : alone) parts.push_back(&p->problem);
      test::Disguised all(parts, {});
      const test::Judged start = test::judge(all.problem());
      SolverOptions options = usual();
      options.components = components;
      const Summary summary = solve(all.problem(), options);
      const std::string where =
          alone[0]->name() + ", " + std::string(name(components)) + ": " + summary.message;
      if (alone[0]->smooth) {
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
      }
      const test::Judged at = test::judge(all.problem());
      EXPECT_NEAR(static_cast<double>(at.cost), summary.final_cost,
                  1e-9 * summary.final_cost + 1e-20 * static_cast<double>(start.cost))
          << where;
      double sum = 0;
      for (const auto& p : alone) sum += solve(p->problem, usual()).final_cost;
      if (alone[0]->convex) {
        EXPECT_NEAR(static_cast<double>(at.cost), sum, 1e-3 * sum) << where;
      }
    }
  }
}

// Boxes as bounds, and as inequalities.
TEST(Relations, BoundsAreInequalities) {
  for (unsigned seed = 0; seed < problem_count(230); ++seed) {
    const auto p = test::random_problem(seed);
    if (p->kind != "boxed") continue;
    test::Disguised plain(p->problem, {});
    solve(plain.problem(), usual());
    const double best = static_cast<double>(test::cost_at(p->problem, plain.plain()));
    for (const Method method : {Method::augmented_lagrangian, Method::barrier}) {
      test::Disguised other(p->problem, {.has_inequalities = true});
      SolverOptions options = usual();
      options.method = method;
      const Summary summary = solve(other.problem(), options);
      const std::string where =
          p->name() + ", " + std::string(name(method)) + ": " + summary.message;
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
      EXPECT_NEAR(static_cast<double>(test::cost_at(p->problem, other.plain())), best, 1e-5 * best)
          << where;
    }
  }
}

/// a exp(−b t) + c with numbers that are exact at a known point, in other units of b and of the
/// residuals: the least cost is 0.
struct Decays {
  explicit Decays(double start, double unit = 1, double size = 1, int count = 1) {
    for (int k = 0; k < count; ++k) {
      std::vector<double>& at = x.emplace_back(3, start);
      at[1] *= unit;
      const Parameters u = problem.add_parameters(at);
      for (int i = 0; i < 12; ++i) {
        const double t = 3.0 * i / 11;
        const double y = (2 + 0.1 * k) * std::exp(-(0.4 + 0.05 * k) * t) + 0.5 - 0.07 * k;
        problem.add_residual(size * (u[0] * exp(u[1] / unit * -t) + u[2] - y));
      }
    }
  }
  std::deque<std::vector<double>> x;
  Problem problem;
};

// From tiny starts the first step carries b to 1e5, where its column is 0 and so is the gradient.
TEST(Verdict, AColumnThatVanishedIsNoMinimum) {
  std::vector<Way> all = ways();
  std::erase_if(all, [](const Way& way) {
    const Method method = way.options.method;
    const bool squares = method == Method::levenberg_marquardt || method == Method::dogleg;
    return !squares || !way.options.scale_free || way.options.use_nonmonotonic_steps ||
           way.options.precision == Precision::f32;
  });
  ASSERT_GE(all.size(), 9u);
  for (const Way& way : all) {
    for (const double start : {1e-3, 1e-4, 1e-5, 1e-6, 1e-9, 1e-12}) {
      const struct {
        double unit, size;
      } rows[] = {{1, 1}, {1e9, 1}, {1e-9, 1}, {1, 1e-8}, {1, 1e8}};
      for (const auto& row : rows) {
        Decays p(start, row.unit, row.size);
        const Summary summary = solve(p.problem, way.options);
        const std::string where = way.name + ", start " + std::to_string(start) + ", unit " +
                                  std::to_string(row.unit) + ": " + summary.message;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_LT(summary.final_cost, 1e-9 * summary.initial_cost) << where;
        EXPECT_NEAR(p.x[0][1] / row.unit, 0.4, 1e-3) << where;
      }
    }
  }
}

// A peak whose first steps carry it to where no data are; going back to the start leads there again
// unless steps are shorter.
TEST(Verdict, APeakThatLeftTheDataIsNoMinimum) {
  for (const double bound : {0.0, 0.81, 0.75, 100.0}) {
    for (const LinearSolver linear : {LinearSolver::automatic, LinearSolver::dense}) {
      std::vector<double> x = {-3.67, -1.66, -0.71};
      Problem problem;
      const Parameters u = problem.add_parameters(x);
      if (bound > 0) problem.set_upper_bound(u, 2, 0, bound);
      for (int i = 0; i <= 20; ++i) {
        const double t = 0.25 * i;
        problem.add_residual(u[0] * exp(-square((t - u[1]) / u[2]) / 2.0) -
                             3.67 * std::exp(-std::pow((t - 1.66) / 0.71, 2) / 2));
      }
      SolverOptions options = usual();
      options.linear_solver = linear;
      const Summary summary = solve(problem, options);
      const std::string where = std::to_string(bound) + ": " + summary.message;
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
      EXPECT_LT(summary.final_cost, 1e-9 * summary.initial_cost) << where;
    }
  }
}

// Components take the same decisions, side by side.
TEST(Verdict, AColumnThatVanishedInAComponentIsNoMinimum) {
  for (const double start : {1e-3, 1e-5, 1e-6, 1e-12}) {
    SolverOptions options = usual();
    options.components = Components::separate;
    Decays all(start, 1, 1, 20);
    const Summary summary = solve(all.problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << start << ": " << summary.message;
    for (int k = 0; k < 20; ++k)
      EXPECT_NEAR(all.x[static_cast<std::size_t>(k)][1], 0.4 + 0.05 * k, 1e-3) << start;
  }
}

/// Data of 2.1 / (1 + exp(−1.36 (t − 2.2))), times `size`, in a unit of time.
struct Logistic {
  Logistic(std::vector<double> start, double unit, double size) : x(std::move(start)) {
    x[0] *= size;
    x[1] /= unit;
    x[2] *= unit;
    const Parameters u = problem.add_parameters(x);
    for (int i = 0; i < 30; ++i) {
      const double t = unit * (0.1 + 0.17 * i);
      problem.add_residual(u[0] / (1.0 + exp(-u[1] * (t - u[2]))) -
                           size * 2.1 / (1 + std::exp(-1.36 * (t / unit - 2.2))));
    }
  }
  std::vector<double> x;
  Problem problem;
};

// The first steps carry the curve away from the data, to their mean; from where they lead there
// again, shorter ones don't.
TEST(Verdict, ACurveThatBecameFlatIsNoMinimum) {
  for (const Components components : {Components::together, Components::separate}) {
    for (const double height : {1.18, 0.1, 1e-3, 1e-6, 1e-12}) {
      const struct {
        double unit, size;
      } rows[] = {{1, 1}, {1e9, 1}, {1e-9, 1}, {1, 1e-8}, {1, 1e8}};
      for (const auto& [unit, size] : rows) {
        Logistic p({height, 0.47, 2.49}, unit, size);
        SolverOptions options = usual();
        options.components = components;
        const Summary summary = solve(p.problem, options);
        const std::string where = std::to_string(height) + ", " + std::to_string(unit) + ", " +
                                  std::to_string(size) + ": " + summary.message;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_NEAR(p.x[0] / size, 2.1, 1e-6) << where;
        EXPECT_NEAR(p.x[1] * unit, 1.36, 1e-6) << where;
      }
    }
  }
}

// A step from where cos is flat carries the angle so far that it is rounded by more than a turn.
TEST(Verdict, AnAngleWhoseRoundingIsATurnIsNoMinimum) {
  for (const Components components : {Components::together, Components::separate}) {
    for (const double size : {1.0, 1e-8, 1e8}) {
      std::vector<double> x = {std::numbers::pi};
      Problem problem;
      const Parameters u = problem.add_parameters(x);
      problem.add_residual(size * (cos(u[0]) - 0.5));
      SolverOptions options = usual();
      options.components = components;
      const Summary summary = solve(problem, options);
      const bool claims = summary.termination == Termination::CONVERGENCE;
      EXPECT_TRUE(!claims || summary.final_cost <= 1e-12 * size * size) << summary.message;
    }
  }
}

// A stretched arm in the corner of its joints' bounds: the gradient there is rounding, whose signs
// press against the bounds or not.
TEST(Verdict, AStretchedArmWithinBoundsIsNoMinimum) {
  constexpr double kPi = std::numbers::pi;
  const struct {
    double first, second, to, start[2];
  } rows[] = {{1, 1, 1, {0.1, 0}}, {0.5, 1, 1, {0.1, 0.1}}};
  for (const auto& row : rows) {
    for (const double unit : {1.0, 1e-9, 1e9}) {
      std::vector<double> x = {row.start[0], row.start[1]};
      Problem problem;
      const Parameters u = problem.add_parameters(x);
      for (std::uint32_t k = 0; k < 2; ++k) {
        problem.set_lower_bound(u, k, 0, -kPi);
        problem.set_upper_bound(u, k, 0, kPi);
      }
      problem.add_residual(unit * (row.first * cos(u[0]) + row.second * cos(u[0] + u[1]) - row.to));
      problem.add_residual(unit * (row.first * sin(u[0]) + row.second * sin(u[0] + u[1])));
      const Summary summary = solve(problem, usual());
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
      EXPECT_LE(summary.final_cost, 1e-12 * unit * unit) << row.to << ", " << unit;
    }
  }
}

// Nothing is to be had beyond a hinge: where it is flat, its minimum is one.
TEST(Verdict, AFlatMinimumIsOne) {
  for (const Components components : {Components::together, Components::separate}) {
    std::vector<double> x = {1};
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    problem.add_residual(max(u[0], Value(0.0)) + 1.0);
    SolverOptions options = usual();
    options.components = components;
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_EQ(summary.final_cost, 0.5);
    EXPECT_LE(x[0], 0);
  }
}

// Squares of 1e-200 are 0, and so would be all that a solve sees.
TEST(Verdict, SquaresOutOfRangeAreAnError) {
  for (const double size : {1e-200, 1e-300}) {
    std::vector<double> x = {1};
    Problem problem;
    const Parameters unknown = problem.add_parameters(x, 1);
    problem.add_residual((unknown[0] - 3.0) * size);
    try {
      topograd::solve(problem, usual());
      FAIL() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::NonFinite);
      EXPECT_STREQ(error.what(),
                   "solve: squares of residuals or derivatives underflow or overflow: scale the "
                   "residuals or the unknowns");
    }
  }
}

}  // namespace
}  // namespace topograd
