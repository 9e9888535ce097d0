// The outer loop on scripted engines: acceptance, termination, history.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/state_record.hpp"
#include "../../../solver/linear/engine_steps.hpp"
#include "../../../solver/solve/levenberg_marquardt.hpp"
#include "../../../solver/step_control/step_rules.hpp"

#include <cmath>
#include <limits>

#include "scripted_engine.hpp"

namespace topograd {
namespace {

using runtime::PointReport;
using runtime::StepReport;
using test::ScriptedEngine;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

PointReport point(double cost, double gradient = 1, double x_norm = 1) {
  return {.cost = cost, .gradient_max_norm = gradient, .gradient_norm = gradient, .x_norm = x_norm};
}
StepReport trial(double model_decrease, double trial_cost, double step_norm = 1) {
  return {.model_decrease = model_decrease,
          .step_norm = step_norm,
          .trial_cost = trial_cost,
          .linear_iterations = 3};
}

/// Uses absolute tolerances, because scripts have no columns.
Summary minimize(ScriptedEngine& engine, SolverOptions options) {
  options.scale_free = false;
  const ProblemModel model;
  Summary summary;
  PcgStep pcg(model.model);
  Engines engines(engine);
  Minimizer(options, model, summary).run(engines, pcg);
  return summary;
}

// Rules that end a solve, one by one.
struct Row {
  const char* name;
  std::vector<PointReport> points;
  std::vector<StepReport> steps;
  SolverOptions options;
  Termination termination;
  const char* message;
  int successful, unsuccessful;
  double final_cost;
};

TEST(Minimizer, EndsByTheRules) {
  const Row rows[] = {
      {"gradient at the start",
       {point(1, 1e-11)},
       {trial(1, 1)},
       {},
       Termination::CONVERGENCE,
       "gradient tolerance reached: max |gradient|: 1.000000e-11 <= 1.000000e-10",
       0,
       0,
       1},
      {"gradient after a step",
       {point(1), point(0.5, 0)},
       {trial(0.5, 0.5)},
       {},
       Termination::CONVERGENCE,
       "gradient tolerance reached: max |gradient|: 0.000000e+00 <= 1.000000e-10",
       1,
       0,
       0.5},
      {"function",
       {point(1), point(1 - 5e-7)},
       {trial(5e-7, 1 - 5e-7)},
       {},
       Termination::CONVERGENCE,
       "function tolerance reached: cost change: 5.000000e-07 <= 1.000000e-06",
       1,
       0,
       1 - 5e-7},
      {"parameter",
       {point(1), point(0.5)},
       {trial(0.5, 0.5, 1e-9)},
       {},
       Termination::CONVERGENCE,
       "parameter tolerance reached: step norm: 1.000000e-09 <= 1.000000e-08",
       1,
       0,
       0.5},
      {"iterations",
       {point(1)},
       {trial(1, 2)},
       {.max_iterations = 3},
       Termination::NO_CONVERGENCE,
       "maximum number of iterations reached: 3",
       0,
       3,
       1},
      {"no iterations",
       {point(1)},
       {trial(1, 2)},
       {.max_iterations = 0},
       Termination::NO_CONVERGENCE,
       "maximum number of iterations reached: 0",
       0,
       0,
       1},
      {"time",
       {point(1)},
       {trial(1, 2)},
       {.time_limit_seconds = 1e-9},
       Termination::NO_CONVERGENCE,
       "time limit reached: 0.000000 s",
       0,
       0,
       1},
      {"radius",
       {point(1)},
       {trial(1, 2)},
       {.min_trust_region_radius = 100},
       Termination::CONVERGENCE,
       "minimum trust region radius reached: radius: 9.765625e+00 <= 1.000000e+02",
       0,
       4,
       1},
      {"invalid steps",
       {point(1)},
       {trial(-1, 2)},
       {},
       Termination::FAILURE,
       "no usable step: the linear model expected no decrease 6 times in a row",
       0,
       6,
       1},
      {"unsolved linear systems",
       {point(1)},
       {trial(kNan, 0)},
       {},
       Termination::FAILURE,
       "no usable step: the linear model expected no decrease 6 times in a row",
       0,
       6,
       1},
      {"nothing left to gain",
       {point(1)},
       {trial(1e-9, 1 + 1e-12)},
       {},
       Termination::CONVERGENCE,
       "function tolerance reached: |predicted cost change|: 1.000000e-09 <= 1.000000e-06",
       0,
       1,
       1},
      {"the first step promises nothing, and its cost is noise; a later one moves nothing",
       {point(1)},
       {trial(1e-20, 1 + 1e-5, 1e-5), trial(1e-21, 1 + 1e-5, 1e-6), trial(1e-30, 1, 0)},
       {},
       Termination::CONVERGENCE,
       "function tolerance reached: |predicted cost change|: 1.000000e-20 <= 1.000000e-06",
       0,
       3,
       1},
      {"the same, by the length of the step",
       {point(1)},
       {trial(1e-20, 1 + 1e-5, 1e-5), trial(1e-21, 1 + 1e-5, 1e-9)},
       {},
       Termination::CONVERGENCE,
       "function tolerance reached: |predicted cost change|: 1.000000e-20 <= 1.000000e-06",
       0,
       2,
       1},
      {"a step that is exactly as long as its bound",
       {point(1, 1, 0.5)},
       {trial(1e-20, 1 + 1e-5, 1), trial(1e-21, 1 + 1e-5, 0.5)},
       {.parameter_tolerance = 0.5},
       Termination::CONVERGENCE,
       "function tolerance reached: |predicted cost change|: 1.000000e-20 <= 1.000000e-06",
       0,
       2,
       1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ScriptedEngine engine(row.points, row.steps);
    const Summary summary = minimize(engine, row.options);
    EXPECT_EQ(name(summary.termination), name(row.termination));
    EXPECT_EQ(summary.message, row.message);
    EXPECT_EQ(summary.num_successful_steps, row.successful);
    EXPECT_EQ(summary.num_unsuccessful_steps, row.unsuccessful);
    EXPECT_EQ(summary.final_cost, row.final_cost);
    EXPECT_EQ(engine.accepts, row.successful);
    EXPECT_EQ(summary.iterations.size(), 1u + row.successful + row.unsuccessful);
  }
}

TEST(Minimizer, NonfiniteTrialIsRejectedAndCounted) {
  for (const double bad : {kNan, kInf, -kInf}) {
    SCOPED_TRACE(bad);
    ScriptedEngine engine({point(1), point(0.5, 0)}, {trial(1, bad), trial(0.5, 0.5)});
    const Summary summary = minimize(engine, {});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
    EXPECT_EQ(summary.num_nonfinite_steps, 1);
    EXPECT_EQ(summary.num_unsuccessful_steps, 1);
    EXPECT_EQ(engine.accepts, 1);
    EXPECT_EQ(engine.lambdas, (std::vector<double>{1e-4, 2e-4}));
    EXPECT_TRUE(summary.iterations[1].step_is_nonfinite);
    EXPECT_EQ(summary.iterations[1].cost, 1);
  }
}

TEST(Minimizer, RejectedTinyStepDoesNotEndTheSolve) {
  // Two bad steps, then one that is tiny because of them and also rejected; then a good one.
  ScriptedEngine engine({point(1), point(0.5, 0)}, {trial(1, 2), trial(1e-9, 1 + 1e-9, 1e-12),
                                                    trial(1e-9, 1 + 1e-9, 1e-12), trial(0.5, 0.5)});
  const Summary summary = minimize(engine, {});
  EXPECT_EQ(summary.num_unsuccessful_steps, 3);
  EXPECT_EQ(summary.num_successful_steps, 1);
  EXPECT_EQ(summary.final_cost, 0.5);
}

TEST(Minimizer, AStepThatPromisesNothingDoesNotEndTheSolveAlone) {
  ScriptedEngine engine({point(1), point(0.5, 0)}, {trial(1e-20, 1 + 1e-5, 1e-5),
                                                    trial(1e-20, 1 + 1e-5, 1e-5), trial(0.5, 0.5)});
  const Summary summary = minimize(engine, {});
  EXPECT_EQ(summary.num_unsuccessful_steps, 2);
  EXPECT_EQ(summary.final_cost, 0.5);
}

TEST(Minimizer, HistoryShowsHeldCosts) {
  ScriptedEngine engine({point(8), point(4), point(3, 0)},
                        {trial(4, 9), trial(4, 4), trial(1, 100), trial(1, 3)});
  const Summary summary = minimize(engine, {});
  std::vector<double> costs, gains;
  for (const IterationSummary& i : summary.iterations) {
    costs.push_back(i.cost);
    gains.push_back(i.relative_decrease);
  }
  EXPECT_EQ(costs, (std::vector<double>{8, 8, 4, 4, 3}));
  EXPECT_EQ(gains, (std::vector<double>{0, -0.25, 1, -96, 1}));
  EXPECT_EQ(summary.initial_cost, 8);
  EXPECT_EQ(summary.num_linear_iterations, 12);
}

// A step of norm 1 from cost 8 that promises 4, to `trial`; at other lengths the cost is `other`.
struct LengthRow {
  const char* name;
  double trial, other;
  std::vector<double> lengths;  // requested
  double cost, step_norm;       // of the accepted step
  bool loose = false;
  bool rescale_steps = true;
};

TEST(Minimizer, StepsAreTriedAtTheParabolasLength) {
  const LengthRow rows[] = {
      {"as promised", 4, 0, {}, 4, 1},
      {"a quarter of it", 7, 6, {4.0 / 7}, 6, 4.0 / 7, true},
      {"a quarter of it, exactly solved", 7, 6, {}, 7, 1},
      {"nothing gained, shorter is better", 8, 7, {0.5}, 7, 0.5, true},
      {"the full step was better", 7, 7.5, {4.0 / 7, 1}, 7, 1, true},
      {"more than promised", 2, 1, {2}, 1, 2},
      {"more than promised, loosely solved", 2, 1, {2}, 1, 2, true},
      {"much more than promised", -8, -9, {2}, -9, 2},
      {"not asked for", 2, 1, {}, 2, 1, true, false},
  };
  for (const LengthRow& row : rows) {
    SCOPED_TRACE(row.name);
    ScriptedEngine engine({point(8), point(row.cost, 0)}, {trial(4, row.trial)});
    engine.cost_at_length = [&](double length) { return length == 1 ? row.trial : row.other; };
    SolverOptions options = {.rescale_steps = row.rescale_steps};
    options.forcing_sequence =
        row.loose ? ForcingSequence::eisenstat_walker : ForcingSequence::constant;
    const Summary summary = minimize(engine, options);
    EXPECT_EQ(engine.lengths, row.lengths);
    ASSERT_GE(summary.iterations.size(), 2u);
    EXPECT_EQ(summary.final_cost, row.cost);
    EXPECT_EQ(summary.iterations[1].step_norm, row.step_norm);
  }
}

TEST(Minimizer, GaussNewtonDampsOnlyAfterRejection) {
  ScriptedEngine engine({point(8), point(4), point(3, 0)},
                        {trial(4, 9), trial(4, 9), trial(4, 4), trial(1, 3)});
  minimize(engine, {.method = Method::gauss_newton});
  ASSERT_EQ(engine.lambdas.size(), 4u);
  EXPECT_LT(engine.lambdas[0], 1e-12);
  EXPECT_EQ(engine.lambdas[1], 1e-4);
  EXPECT_EQ(engine.lambdas[2], 2e-4);
  EXPECT_LT(engine.lambdas[3], 1e-12);
}

TEST(Minimizer, NonfiniteStartIsAnError) {
  ScriptedEngine engine({point(kNan)}, {trial(1, 1)});
  try {
    minimize(engine, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NonFinite);
  }
}

TEST(Minimizer, NonfiniteGradientOfAnAcceptedPointKeepsThePoint) {
  ScriptedEngine engine({point(8), point(4, kNan)}, {trial(4, 4)});
  const Summary summary = minimize(engine, {});
  EXPECT_EQ(summary.termination, Termination::FAILURE);
  EXPECT_EQ(summary.final_cost, 4);
  EXPECT_EQ(summary.iterations.back().cost, 4);
}

TEST(Minimizer, CallbacksStopIt) {
  const struct {
    CallbackReturn answer;
    Termination termination;
  } rows[] = {{CallbackReturn::SOLVER_ABORT, Termination::USER_FAILURE},
              {CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY, Termination::USER_SUCCESS}};
  for (const auto& row : rows) {
    SCOPED_TRACE(name(row.termination));
    ScriptedEngine engine({point(8)}, {trial(4, 9)});
    int calls = 0;
    const Summary summary =
        minimize(engine, {.callback = [&](const IterationSummary& i) {
                   EXPECT_EQ(i.iteration, calls++);
                   return i.iteration == 2 ? row.answer : CallbackReturn::SOLVER_CONTINUE;
                 }});
    EXPECT_EQ(summary.termination, row.termination);
    EXPECT_EQ(calls, 3);
  }
}

TEST(Minimizer, ASecondEngineGoesOn) {
  // The first engine fails in its second trial; the other one has the same point.
  const ProblemModel model;
  const SolverOptions options{.scale_free = false};
  Summary summary;
  PcgStep pcg(model.model);
  Minimizer minimizer(options, model, summary);

  struct Failing final : StepSolver {
    int trials = 0;
    LinearSolver kind() const override { return LinearSolver::pcg; }
    void linearized(runtime::Engine&, runtime::PointReport&) override {}
    StepReport try_step(runtime::Engine& engine, const runtime::StepRequest& request) override {
      if (++trials == 2) throw Error(ErrorCode::DeviceLost, "lost");
      return runtime::damped_steps(engine).try_step(request);
    }
  } failing;
  ScriptedEngine first({point(8)}, {trial(4, 9)});
  Engines before(first);
  EXPECT_THROW(minimizer.run(before, failing), Error);

  ScriptedEngine second({point(8), point(4, 0)}, {trial(4, 4)});
  Engines after(second);
  minimizer.run(after, pcg);
  EXPECT_EQ(second.lambdas, (std::vector<double>{2e-4}));
  EXPECT_EQ(summary.initial_cost, 8);
  EXPECT_EQ(summary.final_cost, 4);
  EXPECT_EQ(summary.iterations.size(), 3u);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
}

/// Residuals of 1e-12 count as 1e-10 of those at the start, from the first point on.
TEST(StepRules, OptimalityKnowsTheStart) {
  const SolverOptions options;
  StepRules rules(options, {});
  const PointReport here{.cost = 0.5e-24, .scaled_gradient_max = 1e-13, .scaled_x_norm = 0};
  const struct {
    double initial, expected;
  } rows[] = {{0.5, 1e-3}, {0.5, 1e-3}, {0.5e4, 1e-5}, {0.5e4, 1e-5}, {0.5e-24, 0.1}};
  for (const auto& row : rows) {
    rules.set_point(here, row.initial);
    EXPECT_NEAR(rules.optimality(), row.expected, 1e-9 * row.expected);
  }
}

// A small gradient ends no solve whose last step took much of the cost, unless the cost is small
// beside that: in any unit of the residuals.
TEST(StepRules, AGradientEndsNoFallInAnyUnit) {
  const struct {
    double change;  ///< of the last step, in costs
    End end;
  } rows[] = {{1e-3, End::none}, {1e-8, End::gradient}, {1e8, End::gradient}};
  for (const double unit : {0x1p-40, 1.0, 0x1p40}) {
    for (const auto& row : rows) {
      const SolverOptions options;
      StepRules rules(options, {});
      const double cost = 0.5 * unit * unit;
      const PointReport here{.cost = cost, .scaled_gradient_max = 0, .scaled_x_norm = unit};
      rules.set_point(here, cost);
      const StepReport step{.model_decrease = row.change * cost, .step_norm = 1};
      rules.take({.valid = true, .change = row.change * cost, .gain = 1}, step, false);
      EXPECT_EQ(rules.check_limits(0, 0).end, row.end) << unit << ", " << row.change;
    }
  }
}

// A step without damping is taken next. The region of a dogleg step is no damping, and a larger one
// stays.
TEST(StepRules, AStepWithoutDampingShrinksNoRegion) {
  const struct {
    Method method;
    double radius;
    bool grows;
  } rows[] = {{Method::levenberg_marquardt, 1e4, true},
              {Method::levenberg_marquardt, 1e15, false},
              {Method::dogleg, 1e4, false}};
  for (const auto& row : rows) {
    SolverOptions options;
    options.method = row.method;
    options.initial_trust_region_radius = row.radius;
    StepRules rules(options, {.few = true});
    const PointReport here{.cost = 8, .scaled_gradient_max = 1, .scaled_x_norm = 1};
    rules.set_point(here, 8);
    const double before = rules.radius();
    EXPECT_EQ(rules.judge_undamped({.model_decrease = 4, .trial_cost = 4}),
              StepRules::Undamped::is_taken);
    EXPECT_EQ(rules.lambda(), 0);
    if (row.grows) {
      EXPECT_GT(rules.radius(), before);
    } else {
      EXPECT_EQ(rules.radius(), before) << name(row.method) << row.radius;
    }
  }
}

TEST(StepRules, TheLimitOfTimeIsAnEnd) {
  const SolverOptions options{.max_iterations = 3, .time_limit_seconds = 2};
  EXPECT_EQ(limit_reached(options, 1, 1, 1, 1.5, 2).end, End::none);
  EXPECT_EQ(limit_reached(options, 1, 1, 1, 2, 2).end, End::time);
  EXPECT_EQ(limit_reached(options, 1, 1, 1, 1.5, 3).end, End::iterations);
}

// Three steps in turn that are refused or gain nothing are stuck, once. A gain begins the count
// again, and at a cost of 0 no change is one.
TEST(StepRules, ThreeIdleStepsInTurnAreStuck) {
  const SolverOptions options;
  const StepReport step{.model_decrease = 1, .step_norm = 1, .trial_cost = 2};
  for (const bool refused : {false, true}) {
    StepRules rules(options, {});
    const double cost = refused ? 1 : 0;
    rules.set_point({.cost = cost, .scaled_gradient_max = 1, .scaled_x_norm = 0}, 1);
    rules.open_point();
    const auto idle = [&] {
      if (refused)
        rules.refuse(rules.judge(step), step, 0);
      else
        rules.take({.valid = true, .change = 0, .gain = 0}, step, false);
      return rules.is_stuck();
    };
    for (int again = 0; again < 2; ++again) {
      EXPECT_FALSE(idle());
      EXPECT_FALSE(idle());
      EXPECT_TRUE(idle()) << refused;
      EXPECT_FALSE(idle());
      rules.take({.valid = true, .change = 0.5, .gain = 1}, step, false);
      EXPECT_FALSE(rules.is_stuck());
    }
  }
}

// A small step that was damped and gains what it promises goes on with less damping, but not with
// less than that of a step which was refused.
TEST(StepRules, ARefusedRadiusIsNotTriedAgain) {
  const SolverOptions options;
  const PointReport here{.cost = 1, .scaled_gradient_max = 1e-12, .scaled_x_norm = 1};
  for (const bool refused : {false, true}) {
    StepRules rules(options, {});
    rules.set_point(here, 1);
    rules.open_point();
    const StepReport far{.model_decrease = 1e-3, .step_norm = 1, .trial_cost = 2};
    if (refused) {
      EXPECT_FALSE(rules.refuse(rules.judge(far), far, 0));
    }
    const StepReport small{.model_decrease = 1e-9, .step_norm = 1e-3, .trial_cost = 1 - 1e-9};
    const double radius = rules.radius();
    const Verdict verdict = rules.after_take(rules.judge(small), small, here, 0.5);
    EXPECT_EQ(verdict.end, refused ? End::cost_change : End::none);
    EXPECT_EQ(rules.radius(), refused ? radius : 100 * radius);
  }
}

// A second promise that the cost does not follow is unsettled, unless it is small or something was
// gained since the first.
TEST(StepRules, PromisesInVainDoubtAVerdictOnce) {
  using Undamped = StepRules::Undamped;
  const SolverOptions options;
  StepRules rules(options, {.few = true});
  const auto at = [&](double cost, const StepReport& step) {
    rules.set_point({.cost = cost, .scaled_gradient_max = 1, .scaled_x_norm = 1}, 8);
    return rules.judge_undamped(step);
  };
  const StepReport much{.model_decrease = 4, .trial_cost = 9};
  const StepReport little{.model_decrease = 1e-4, .trial_cost = 9};
  EXPECT_EQ(at(8, little), Undamped::is_long);
  EXPECT_EQ(at(8, little), Undamped::agrees);
  EXPECT_EQ(at(8, much), Undamped::unsettled);
  EXPECT_EQ(at(7, much), Undamped::is_long);
  EXPECT_EQ(at(7, much), Undamped::unsettled);
  EXPECT_EQ(at(7, {.model_decrease = 4, .trial_cost = 3}), Undamped::is_taken);
  EXPECT_EQ(rules.exact_tries(), 1);
  rules.doubt(4);
  EXPECT_GT(rules.exact_tries(), 1);
}

TEST(StepRules, SecondDerivativesOfManyUnknownsAreNotAskedFor) {
  const SolverOptions options;
  for (const bool few : {false, true}) {
    StepRules rules(options, {.few = few});
    rules.set_point({.cost = 1, .scaled_gradient_max = 1, .scaled_x_norm = 1}, 1);
    EXPECT_EQ(rules.needs_exact_gain(0), few);
  }
}

// The gradient contradicts that nothing is left to gain, at every point.
TEST(StepRules, SecondDerivativesThatSettleNothingAreAskedLessOften) {
  const SolverOptions options;
  StepRules rules(options, {.few = true});
  std::vector<int> passed;
  const auto ask = [&](double gain) {
    for (int points = 0; points < 100; ++points) {
      rules.set_point({.cost = 1, .scaled_gradient_max = 1, .scaled_x_norm = 1}, 1);
      if (!rules.needs_exact_gain(0)) continue;
      passed.push_back(points);
      return rules.set_exact_gain(gain);
    }
    FAIL() << "asked no more";
  };
  for (const double gain : {1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0}) ask(gain);
  EXPECT_EQ(passed, (std::vector<int>{0, 1, 3, 7, 15, 0, 1}));
}

// Rounding may hide 1e-4 of the cost, and the tolerance is 1e-6: steps that promise 1e-5 end the
// solve at the fourth that is refused at one point.
TEST(StepRules, RoundingIsSeenFourTimesAtEveryPoint) {
  const SolverOptions options;
  StepRules rules(options, {});
  const StepReport step{.model_decrease = 1e-5, .step_norm = 1, .trial_cost = 1 + 1e-6};
  for (int k = 0; k < 3; ++k) {
    rules.set_point({.cost = 1, .scaled_gradient_max = 0, .scaled_x_norm = 1e-4 * 0x1p52}, 1);
    rules.open_point();
    int refused = 1;
    while (refused < 10 && !rules.refuse(rules.judge(step), step, 0)) ++refused;
    EXPECT_EQ(refused, 4) << k;
  }
}

TEST(StepRules, StatesWithInvalidStepsAreRestored) {
  const SolverOptions options;
  StepRules rules(options, {}), other(options, {});
  rules.set_point(point(1), 1);
  const StepReport invalid{.model_decrease = kNan};
  for (int k = 0; k < 3; ++k) {
    rules.refuse(rules.judge(invalid), invalid, kNan);
    ir::StateRecord saved, again;
    rules.transfer(saved);
    ir::StateRecord restored(saved.bytes());
    other.transfer(restored);
    restored.require_end();
    other.transfer(again);
    EXPECT_EQ(again.bytes(), saved.bytes()) << k;
    EXPECT_FALSE(other.no_invalid_step());
  }
}

}  // namespace
}  // namespace topograd
