// Methods for scalar objectives: line search, L-BFGS, Newton, Adam and gradient descent.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/state_record.hpp"
#include "../../../runtime/cpu/engine.hpp"
#include "../../../solver/first_order/adam.hpp"
#include "../../../solver/first_order/descent.hpp"
#include "../../../solver/first_order/lbfgs.hpp"
#include "../../../solver/first_order/newton.hpp"
#include "../../../solver/first_order/row_model.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/step_control/line_search.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../../../tools/problems/springs.hpp"

namespace topograd {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Line {
  const char* name;
  std::function<double(double)> value, slope;
};

// Moré & Thuente, ACM TOMS 20(3), 1994, functions 5.1, 5.2 and one that ends at a barrier.
const Line kLines[] = {
    {"5.1", [](double a) { return -a / (a * a + 2); },
     [](double a) { return (a * a - 2) / ((a * a + 2) * (a * a + 2)); }},
    {"5.2", [](double a) { return std::pow(a + 0.004, 5) - 2 * std::pow(a + 0.004, 4); },
     [](double a) { return 5 * std::pow(a + 0.004, 4) - 8 * std::pow(a + 0.004, 3); }},
    {"barrier", [](double a) { return a < 1 ? -a - 0.01 * std::log(1 - a) : kNan; },
     [](double a) { return a < 1 ? -1 + 0.01 / (1 - a) : kNan; }},
};

TEST(LineSearch, MeetsBothConditionsFromAnyFirstStep) {
  const LineSearchOptions options;
  for (const Line& line : kLines) {
    const auto phi = [&](double a) {
      const double value = line.value(a), slope = line.slope(a);
      return LinePoint{a, value, slope, std::isfinite(value) && std::isfinite(slope)};
    };
    const LinePoint start = phi(0);
    for (const double first : {1e-3, 0.1, 1.0, 10.0, 1e3}) {
      SCOPED_TRACE(std::string(line.name) + " from " + std::to_string(first));
      const LineSearchResult result = strong_wolfe(phi, start, first, options);
      ASSERT_TRUE(result.found);
      EXPECT_LE(result.evaluations, options.max_evaluations);
      EXPECT_LE(result.point.value, start.value + 1e-4 * result.point.step * start.slope);
      EXPECT_LE(std::abs(result.point.slope), 0.9 * std::abs(start.slope));
      EXPECT_EQ(result.point.value, line.value(result.point.step));
    }
  }
}

TEST(LineSearch, GoesOnWhereRoundingHidesTheFirstStep) {
  const auto phi = [](double a) {
    const double b = 1e-12 * a - 1;
    return LinePoint{a, 1e4 + b * b, 2e-12 * b, true};
  };
  const LinePoint start = phi(0);
  const LineSearchResult hidden = strong_wolfe(phi, start, 1, {}, 1e-11);
  ASSERT_TRUE(hidden.found);
  EXPECT_LT(hidden.point.value, start.value - 0.1);
  EXPECT_EQ(hidden.point.value, phi(hidden.point.step).value);
}

// In another unit of the step the same trials follow, also those that rounding hides.
TEST(LineSearch, TheUnitOfTheStepChangesNoTrial) {
  const auto trials = [](double unit) {
    std::vector<double> out;
    const auto phi = [&](double a) {
      const double b = 1e-12 * a / unit - 1;
      out.push_back(a / unit);
      return LinePoint{a, 1e4 + b * b, 2e-12 / unit * b, true};
    };
    const LinePoint start = phi(0);
    EXPECT_TRUE(strong_wolfe(phi, start, 4 * unit, {}, 1e-9).found) << unit;
    return out;
  };
  const std::vector<double> plain = trials(1);
  for (const double unit : {0x1p-40, 0x1p40}) EXPECT_EQ(trials(unit), plain) << unit;
}

TEST(LineSearch, FindsNothingWhereTheSlopeLies) {
  const auto phi = [](double a) { return LinePoint{a, a, -1, true}; };
  EXPECT_FALSE(strong_wolfe(phi, {0, 0, -1, true}, 1, {}).found);
}

// Beyond a rise the line falls for ever, but a step that meets both conditions lies before it.
TEST(LineSearch, ARiseIsNotPassed) {
  const auto phi = [](double a) {
    const double t = std::clamp((a - 0.5) / 0.2, 0.0, 1.0);  // a step from 0 to 1
    const double slope = t > 0 && t < 1 ? 0.95 * 6 * t * (1 - t) / 0.2 : 0;
    return LinePoint{a, 0.95 * t * t * (3 - 2 * t) - a, slope - 1, true};
  };
  const LineSearchResult result = strong_wolfe(phi, phi(0), 0.1, {});
  ASSERT_TRUE(result.found);
  EXPECT_LT(result.point.step, 0.7);
  EXPECT_LE(std::abs(result.point.slope), 0.9);
}

// ½ t² − t has the slope −½ at ½: exactly as flat as is asked for.
TEST(LineSearch, AFlatFirstStepIsAll) {
  const auto phi = [](double a) { return LinePoint{a, a * a / 2 - a, a - 1, true}; };
  const LineSearchOptions half{.sufficient_curvature_decrease = 0.5};
  const LineSearchResult result = strong_wolfe(phi, phi(0), 0.5, half);
  ASSERT_TRUE(result.found);
  EXPECT_EQ(result.point.step, 0.5);
  EXPECT_EQ(result.evaluations, 1);
}

// However much rounding hides, the minimum lies before a slope that leads up.
TEST(LineSearch, AStepThatLeadsUpIsNotExtended) {
  double longest = 0;
  const auto phi = [&](double a) {
    longest = std::max(longest, a);
    return LinePoint{a, a * a / 2 - a / 2, a - 0.5, true};
  };
  const LineSearchResult result = strong_wolfe(phi, phi(0), 0.99, {}, 10);
  ASSERT_TRUE(result.found);
  EXPECT_EQ(longest, 0.99);
}

// ½ t² − t from 0.8: the parabola's minimum at 1 is nearer than twice the step, which is tried
// next.
TEST(LineSearch, AnExtensionDoublesTheStepAtLeast) {
  for (const double unit : {1.0, 0x1p-20}) {
    std::vector<double> trials;
    const auto phi = [&](double a) {
      const double t = a / unit;
      trials.push_back(t);
      return LinePoint{a, t * t / 2 - t, (t - 1) / unit, true};
    };
    const LinePoint start = phi(0);
    const LineSearchOptions exact{.sufficient_curvature_decrease = 0.01};
    const LineSearchResult result = strong_wolfe(phi, start, 0.8 * unit, exact);
    ASSERT_TRUE(result.found);
    EXPECT_NEAR(result.point.step / unit, 1, 0.01);
    ASSERT_GE(trials.size(), 3u);
    EXPECT_EQ(trials[2], 1.6) << unit;
  }
}

// Hager & Zhang (2005): where rounding hides the values, the slope may be (1 − 2δ) |φ′(0)| at most.
TEST(LineSearch, AHiddenStepMayLeadUpLessThanTheFirstSlope) {
  const LineSearchOptions one{.max_evaluations = 1};
  for (const auto& [slope, found] : {std::pair(0.9, true), {0.999, true}, {1.5, false}}) {
    const auto phi = [slope](double a) { return LinePoint{a, 1, slope, true}; };
    EXPECT_EQ(strong_wolfe(phi, {0, 1, -1, true}, 1, one, 1e-3).found, found) << slope;
  }
}

// A change up to the resolution is hidden, and a step as steep as the start is extended.
TEST(LineSearch, ChangesUpToTheResolutionAreHidden) {
  for (const auto& [fall, extended] : {std::pair(0x1p-10, true), {0x1.1p-10, false}}) {
    std::vector<double> trials;
    const auto phi = [&, fall = fall](double a) {
      trials.push_back(a);
      return trials.size() == 1 ? LinePoint{a, 1 - fall, -1e-6, true} : LinePoint{a, 0.5, 0, true};
    };
    const LineSearchOptions options{.max_expansion = 8};
    ASSERT_TRUE(strong_wolfe(phi, {0, 1, -1e-6, true}, 1, options, 0x1p-10).found);
    ASSERT_EQ(trials.size(), 2u);
    EXPECT_EQ(trials[1] == 8, extended) << fall;
  }
}

// The cubic of slopes whose squares are infinite has no minimiser: the interval is halved.
TEST(LineSearch, HalvesWhatNoCubicDescribes) {
  const double unit = 1e200;
  const auto phi = [unit](double a) {
    return LinePoint{a, unit * (a * a / 2 - a), unit * (a - 1), true};
  };
  const LineSearchResult result = strong_wolfe(phi, phi(0), 2.5, {});
  ASSERT_TRUE(result.found);
  EXPECT_EQ(result.point.step, 1.25);
}

// Nocedal & Wright, algorithm 3.6: a trial that is no lower than the lowest one is the new end of
// the interval, however flat it is.
TEST(LineSearch, ATrialAsHighAsTheLowestIsNotTaken) {
  int trial = 0;
  const LinePoint points[] = {
      {0, -1, -1, true}, {0, -0.5, 1, true}, {0, -1, 0.05, true}, {0, -1.2, 0, true}};
  const auto phi = [&](double a) {
    LinePoint point = points[std::min(trial++, 3)];
    point.step = a;
    return point;
  };
  const LineSearchOptions options{.sufficient_curvature_decrease = 0.1};
  const LineSearchResult result = strong_wolfe(phi, {0, 0, -1, true}, 1, options);
  ASSERT_TRUE(result.found);
  EXPECT_EQ(result.point.value, -1.2);
}

TEST(LineSearch, OnlyAParabolaThatBendsUpwardsHasAMinimum) {
  EXPECT_EQ(parabola_minimiser(-2, 1, -1), 1);  // t² − 2 t
  EXPECT_EQ(parabola_minimiser(-2, 4, 8), 1);
  EXPECT_TRUE(std::isnan(parabola_minimiser(-1, 1, -1)));
  EXPECT_TRUE(std::isnan(parabola_minimiser(-1, 1, -2)));
  EXPECT_TRUE(std::isnan(parabola_minimiser(-1, 1, kNan)));
}

TEST(Box, DirectionsOfHeldUnknownsEndOnTheirBounds) {
  const double kFree = std::numeric_limits<double>::infinity();
  const std::vector<double> lower = {1, -kFree, -kFree, 0}, upper = {kFree, 2, kFree, 3};
  Objective objective;
  objective.size = 4;
  objective.lower = lower;
  objective.upper = upper;
  Box box(objective);
  // The first two are a rounding error inside of the bounds that the gradient pushes them to.
  const double near = 1e-16;
  const std::vector<double> x = {1 + 2 * near, 2 - 2 * near, 5, 3}, g = {1, -1, 1, 1};
  box.look(x, g);
  EXPECT_EQ(box.held()[0], 1);
  EXPECT_EQ(box.held()[1], 1);
  EXPECT_EQ(box.held()[2], 0);
  EXPECT_EQ(box.held()[3], 0);
  std::vector<double> direction = {7, 7, 7, 7};
  box.finish(x, direction);
  EXPECT_EQ(direction, (std::vector<double>{1 - x[0], 2 - x[1], 7, 7}));
}

TEST(Box, UnitsOfUnknownsChangeNothing) {
  const double free = std::numeric_limits<double>::infinity();
  for (const double unit : {1e-12, 1.0, 1e12}) {
    const std::vector<double> lower = {unit, unit}, upper = {free, free};
    Objective objective;
    objective.size = 2;
    objective.lower = lower;
    objective.upper = upper;
    Box box(objective);
    box.look(std::vector<double>{unit * (1 + 1e-15), unit * 1.001}, std::vector<double>{1, 1});
    EXPECT_EQ(box.held()[0], 1) << unit;
    EXPECT_EQ(box.held()[1], 0) << unit;
  }
}

// 1e-10 of the numbers is no distance.
TEST(Box, HoldsWhatIsOnABoundUpToATenBillionth) {
  const double free = std::numeric_limits<double>::infinity();
  const std::vector<double> lower = {1, 1}, upper = {free, free};
  Objective objective;
  objective.size = 2;
  objective.lower = lower;
  objective.upper = upper;
  Box box(objective);
  box.look(std::vector<double>{1 + 0.9e-10, 1 + 1.1e-10}, std::vector<double>{1, 1});
  EXPECT_EQ(box.held()[0], 1);
  EXPECT_EQ(box.held()[1], 0);
}

// From (1, 2) in [0, 4] × [0, 5] along (1, −1), the second bound is met after 2 and the first after
// 3. An unknown that does not move meets none.
TEST(Box, TheLongestStepEndsAtTheLastBound) {
  const std::vector<double> lower = {0, 0}, upper = {4, 5}, x = {1, 2};
  Objective objective;
  objective.size = 2;
  objective.lower = lower;
  objective.upper = upper;
  const Box box(objective);
  EXPECT_EQ(box.longest(x, std::vector<double>{1, -1}), 3);
  EXPECT_EQ(box.longest(x, std::vector<double>{0, -1}), 2);
  EXPECT_EQ(box.longest(x, std::vector<double>{0, 0}), 1);
}

/// Extended Rosenbrock: the minimum 0 is at ones.
Objective rosenbrock(std::size_t n, int* evaluations = nullptr) {
  const auto evaluate = [evaluations](std::span<const double> x, std::span<double> g) {
    double sum = 0;
    for (std::size_t k = 0; k + 1 < x.size(); k += 2) {
      const double a = 1 - x[k], b = x[k + 1] - x[k] * x[k];
      sum += a * a + 100 * b * b;
      if (g.empty()) continue;
      g[k] = -2 * a - 400 * b * x[k];
      g[k + 1] = 200 * b;
    }
    if (evaluations != nullptr) ++*evaluations;
    return sum;
  };
  return {.size = n, .evaluate = evaluate, .plus = {}};
}

TEST(Lbfgs, MinimisesRosenbrockAtAnySize) {
  for (const std::size_t n : {2u, 1000u}) {
    std::vector<double> x(n);
    for (std::size_t k = 0; k < n; ++k) x[k] = k % 2 == 0 ? -1.2 : 1;
    int evaluations = 0;
    Summary summary;
    minimize_lbfgs(rosenbrock(n, &evaluations), x,
                   {.max_iterations = 200, .function_tolerance = 0, .parameter_tolerance = 0},
                   summary);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_NEAR(summary.initial_cost, 24.2 * static_cast<double>(n) / 2, 1e-9 * n);
    EXPECT_LT(summary.final_cost, 1e-18);
    for (const double v : x) EXPECT_NEAR(v, 1, 1e-9);
    EXPECT_LE(summary.num_iterations(), 60);
    int counted = 1;
    for (const IterationSummary& i : summary.iterations) counted += i.evaluations;
    EXPECT_LE(evaluations, counted + 5);
  }
}

/// An engine with vectors on the host, which implements runtime::DescentSteps.
class VectorsHere final : public runtime::DescentSteps {
 public:
  using Vector = std::vector<double>;
  VectorsHere(Objective objective, std::span<const double> x)
      : objective_(std::move(objective)), x_(x.begin(), x.end()), g_(x.size()) {}

  runtime::DescentReport begin_descent(std::size_t pairs) override {
    history_.assign(2 * pairs, Vector(x_.size(), kNan));  // uninitialised data must not be read
    return {.cost = objective_.evaluate(x_, g_),
            .gradient_max_norm = norms_of(g_).max,
            .gradient_norm = norm_of(g_),
            .x_norm = norm_of(x_)};
  }
  runtime::DescentReport try_direction(std::span<const double> factors, double length) override {
    d_.assign(x_.size(), 0);
    for (std::size_t k = 0; k < d_.size(); ++k) d_[k] = factors[0] * g_[k];
    for (std::size_t v = 0; v < history_.size(); ++v) {
      for (std::size_t k = 0; factors[1 + v] != 0 && k < d_.size(); ++k)
        d_[k] += factors[1 + v] * history_[v][k];
    }
    return try_length(length);
  }
  runtime::DescentReport try_length(double length) override {
    length_ = length;
    trial_ = x_;
    for (std::size_t k = 0; k < d_.size(); ++k) trial_[k] += length * d_[k];
    trial_g_ = change_ = g_;
    const double cost = objective_.evaluate(trial_, trial_g_);
    for (std::size_t k = 0; k < g_.size(); ++k) change_[k] = trial_g_[k] - g_[k];
    for (int row = 0; row < 3; ++row) products_[row].clear();
    for (std::size_t v = 0; v < history_.size() + 2; ++v) {
      const Vector& a = v < history_.size() ? history_[v] : v == history_.size() ? d_ : change_;
      const Vector* const with[] = {&d_, &change_, &trial_g_};
      for (int row = 0; row < 3; ++row) products_[row].push_back(dot(a, *with[row]));
    }
    return {.cost = cost,
            .gradient_max_norm = norms_of(trial_g_).max,
            .gradient_norm = norm_of(trial_g_),
            .x_norm = norm_of(trial_),
            .slope = dot(g_, d_),
            .direction_norm = norm_of(d_),
            .with_direction = products_[0],
            .with_change = products_[1],
            .with_gradient = products_[2]};
  }
  void keep_descent(std::optional<std::size_t> pair) override {
    x_ = trial_;
    g_ = trial_g_;
    if (!pair) return;
    history_[2 * *pair] = d_;
    for (double& s : history_[2 * *pair]) s *= length_;
    history_[2 * *pair + 1] = change_;
  }
  void transfer(ir::StateRecord& record) override {
    for (Vector& vector : history_) record.list("pair", vector);
  }
  void descent_point(std::span<double> x) override { std::copy(x_.begin(), x_.end(), x.begin()); }
  bool last_known_descent(std::span<double>) override { return false; }

 private:
  static double dot(const Vector& a, const Vector& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }

  Objective objective_;
  Vector x_, g_, d_, trial_, trial_g_, change_;
  std::vector<Vector> history_, products_ = std::vector<Vector>(3);
  double length_ = 0;
};

TEST(Lbfgs, OnProductsItTakesTheStepsOfTheTwoLoops) {
  for (const int rank : {1, 3, 20}) {
    SCOPED_TRACE(rank);
    std::vector<double> x(40), y;
    for (std::size_t k = 0; k < x.size(); ++k)
      x[k] = (k % 2 == 0 ? -1.2 : 1) + 0.01 * static_cast<double>(k);
    y = x;
    SolverOptions options{.max_iterations = 25, .function_tolerance = 0, .parameter_tolerance = 0};
    options.max_lbfgs_rank = rank;
    Summary vectors, products;
    minimize_lbfgs(rosenbrock(x.size()), x, options, vectors);
    VectorsHere engine(rosenbrock(y.size()), y);
    minimize_lbfgs(engine, y, options, products);
    ASSERT_EQ(products.iterations.size(), vectors.iterations.size());
    for (std::size_t k = 0; k < vectors.iterations.size(); ++k) {
      const IterationSummary &a = products.iterations[k], &e = vectors.iterations[k];
      EXPECT_NEAR(a.cost, e.cost, 1e-7 * (1 + e.cost)) << k;
      EXPECT_NEAR(a.step_norm, e.step_norm, 1e-6) << k;
      EXPECT_EQ(a.evaluations, e.evaluations) << k;
    }
    for (std::size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(y[k], x[k], 1e-6) << k;
  }
}

/// Reports at its third direction that it leads up.
class LeadsUpOnce final : public runtime::DescentSteps {
 public:
  explicit LeadsUpOnce(VectorsHere& inner) : inner_(inner) {}
  runtime::DescentReport begin_descent(std::size_t pairs) override {
    return inner_.begin_descent(pairs);
  }
  runtime::DescentReport try_direction(std::span<const double> factors, double length) override {
    histories.push_back(std::ranges::any_of(factors.subspan(1), [](double f) { return f != 0; }));
    runtime::DescentReport out = inner_.try_direction(factors, length);
    if (histories.size() == 3) out.slope = 0.5;
    return out;
  }
  runtime::DescentReport try_length(double length) override { return inner_.try_length(length); }
  void keep_descent(std::optional<std::size_t> pair) override { inner_.keep_descent(pair); }
  void transfer(ir::StateRecord& record) override { inner_.transfer(record); }
  void descent_point(std::span<double> x) override { inner_.descent_point(x); }
  bool last_known_descent(std::span<double> x) override { return inner_.last_known_descent(x); }

  std::vector<bool> histories;  ///< by direction: it has parts of steps before

 private:
  VectorsHere& inner_;
};

TEST(Lbfgs, OnProductsADirectionThatLeadsUpForgetsTheHistory) {
  std::vector<double> x = {-1.2, 1};
  VectorsHere vectors(rosenbrock(2), x);
  LeadsUpOnce engine(vectors);
  Summary summary;
  minimize_lbfgs(engine, x, {.max_iterations = 4}, summary);
  EXPECT_EQ(summary.num_unsuccessful_steps, 0);
  EXPECT_EQ(engine.histories, (std::vector<bool>{false, true, true, false, true}));
}

// All pairs that the rank allows are in use, in any order. The same pair twice is none.
TEST(Lbfgs, OnProductsAFullHistoryIsRestored) {
  const auto restored = [](const std::vector<std::uint64_t>& order) {
    ir::StateRecord saved;
    std::vector<std::uint64_t> pairs = order;
    std::vector<double> products(16, 0.5), gradient(4, 2.0);
    saved.list("order of the pairs", pairs);
    saved.list("products of the pairs", std::span(products));
    saved.list("products with the gradient", std::span(gradient));
    ir::StateRecord record(saved.bytes());
    LbfgsProducts out(2);
    out.transfer(record);
    ir::StateRecord again;
    out.transfer(again);
    return again.bytes() == saved.bytes();
  };
  EXPECT_TRUE(restored({}));
  EXPECT_TRUE(restored({0}));
  EXPECT_TRUE(restored({1, 0}));
  EXPECT_THROW(restored({0, 0}), Error);
  EXPECT_THROW(restored({1}), Error);
  EXPECT_THROW(restored({0, 1, 2}), Error);
}

// What bounds hold leaves the recursion: the rest moves as if it were alone.
TEST(Lbfgs, HeldUnknownsLeaveTheRecursion) {
  constexpr std::size_t kSize = 4, kHeld = 1;
  LbfgsDirection all(3), alone(3);
  const auto without = [](std::vector<double> v) {
    v.erase(v.begin() + kHeld);
    return v;
  };
  const std::vector<double> steps[] = {{1, 2, -1, 0.5}, {0.5, 1, 2, -1}, {-1, 3, 0.3, 0.2}};
  for (const std::vector<double>& step : steps) {
    std::vector<double> change(kSize);  // by a Hessian with 2, 3, 4, 5 on its diagonal, else 1
    const double sum = std::accumulate(step.begin(), step.end(), 0.0);
    for (std::size_t k = 0; k < kSize; ++k) change[k] = sum + static_cast<double>(k + 1) * step[k];
    all.moved(1, step, change);
    alone.moved(1, without(step), without(change));
  }
  const std::vector<double> x(kSize, 0.0), g = {1, -2, 3, -4};
  std::vector<double> d(kSize), expected(kSize - 1);
  std::vector<std::uint8_t> held(kSize, 0);
  held[kHeld] = 1;
  all.compute(x, g, held, d);
  alone.compute(without(x), without(g), {}, expected);
  EXPECT_EQ(d[kHeld], 0);
  d = without(d);
  for (std::size_t k = 0; k < d.size(); ++k) EXPECT_NEAR(d[k], expected[k], 1e-14) << k;
}

// Columns of norm 1 and `unit` have scales. In coordinates that are alike the residuals are 1 − 4
// and 1 − 5, so the first trial moves by the size of x, √2, along a gradient of norm 5.
TEST(Lbfgs, UnitsOfUnknownsChangeNoFirstStep) {
  for (const double unit : {1e3, 1e6, 1e-4}) {
    std::vector<double> x = {1, 1 / unit};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    problem.add_residual(p.scalar(0) - 4.0);
    problem.add_residual(unit * p.scalar(1) - 5.0);
    const Summary s =
        solve(problem, {.backend = Backend::cpu, .method = Method::lbfgs, .max_iterations = 1});
    ASSERT_EQ(s.iterations.size(), 2u);
    EXPECT_NEAR(s.iterations[1].step_size, std::numbers::sqrt2 / 5, 1e-12) << unit;
    EXPECT_NEAR(x[1] * unit, 1 + 4 * std::numbers::sqrt2 / 5, 1e-9) << unit;
  }
}

TEST(Lbfgs, UnitsChangeNoStep) {
  const auto steps = [](double unit, double energy, double* error) {
    const Objective plain = rosenbrock(6);
    const Objective scaled{.size = 6,
                           .evaluate =
                               [&](std::span<const double> x, std::span<double> g) {
                                 std::vector<double> u(x.begin(), x.end());
                                 for (double& v : u) v /= unit;
                                 const double value = energy * plain.evaluate(u, g);
                                 for (double& v : g) v *= energy / unit;
                                 return value;
                               },
                           .plus = {}};
    std::vector<double> x = {-1.2, 1, -1.1, 0.9, -1, 1.1};
    for (double& v : x) v *= unit;
    Summary summary;
    minimize_lbfgs(scaled, x, {.max_iterations = 200}, summary);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    *error = 0;
    for (const double v : x) *error = std::max(*error, std::abs(v / unit - 1));
    return summary.num_iterations();
  };
  double error = 0;
  const int plain = steps(1, 1, &error);
  EXPECT_LE(error, 1e-6);
  for (const double unit : {0x1p-40, 1.0, 0x1p40}) {
    for (const double energy : {0x1p-40, 1.0, 0x1p40}) {
      EXPECT_EQ(steps(unit, energy, &error), plain) << unit << ", " << energy;
      EXPECT_LE(error, 1e-6) << unit << ", " << energy;
    }
  }
}

// The gradient is that of ½ x², the cost rises with every evaluation. Where the gradient promises
// less than the function tolerance, rounding may explain it, but not from x = 1.
TEST(Lbfgs, AGradientThatTheCostDeniesIsAFailure) {
  for (const double start : {1.0, 1e-5}) {
    int evaluations = 0;
    const Objective denied{.size = 1,
                           .evaluate =
                               [&](std::span<const double> x, std::span<double> g) {
                                 if (!g.empty()) g[0] = x[0];
                                 return 1 + 1e-3 * evaluations++;
                               },
                           .plus = {}};
    std::vector<double> x = {start};
    Summary summary;
    minimize_lbfgs(denied, x, {}, summary);
    EXPECT_EQ(summary.termination, start == 1 ? Termination::FAILURE : Termination::CONVERGENCE)
        << summary.message;
    EXPECT_EQ(x[0], start);
    EXPECT_EQ(summary.num_nonfinite_steps, 0);
  }
}

// Numbers that fail for one line search: the descent goes on without its history, unless the caller
// ends it there.
TEST(Lbfgs, ALineSearchThatFindsNothingIsRepeatedOnce) {
  const auto solved = [](int first, int last, CallbackReturn answer, double* x0) {
    bool fails = first == 0;
    const Objective plain = rosenbrock(2);
    const Objective sometimes{.size = 2,
                              .evaluate =
                                  [&](std::span<const double> x, std::span<double> g) {
                                    const double value = plain.evaluate(x, g);
                                    return fails && x[0] != -1.2 ? kNan : value;
                                  },
                              .plus = {}};
    std::vector<double> x = {-1.2, 1};
    SolverOptions options{.max_iterations = 200};
    options.callback = [&](const IterationSummary& step) {
      fails = step.iteration >= first && step.iteration < last;
      return step.iteration > first ? answer : CallbackReturn::SOLVER_CONTINUE;
    };
    Summary summary;
    minimize_lbfgs(sometimes, x, options, summary);
    *x0 = x[0];
    return summary;
  };
  double x = 0;
  const Summary once = solved(5, 6, CallbackReturn::SOLVER_CONTINUE, &x);
  EXPECT_EQ(once.termination, Termination::CONVERGENCE) << once.message;
  EXPECT_EQ(once.num_unsuccessful_steps, 1);
  EXPECT_EQ(once.num_nonfinite_steps, 1);
  EXPECT_NEAR(x, 1, 1e-4);
  const Summary twice = solved(5, 7, CallbackReturn::SOLVER_CONTINUE, &x);
  EXPECT_EQ(twice.termination, Termination::FAILURE) << twice.message;
  EXPECT_EQ(twice.num_unsuccessful_steps, 2);
  const Summary at_start = solved(0, 9, CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY, &x);
  EXPECT_EQ(at_start.termination, Termination::USER_SUCCESS) << at_start.message;
}

TEST(Lbfgs, KeepsPairsThatDescribeCurvature) {
  const struct {
    std::vector<double> step, change;
    bool kept;
  } rows[] = {{{1, 0}, {1, 1}, true},
              {{1, 0}, {1e-9, 1}, true},
              {{1, 0}, {1e-14, 1}, false},
              {{1, 0}, {-1, 1}, false},
              {{1e-150, 1e-150}, {1e-150, 0}, true}};
  for (const auto& row : rows) {
    LbfgsDirection direction(3);
    direction.moved(1, row.step, row.change);
    EXPECT_EQ(direction.has_model(), row.kept) << row.change[0];
  }
}

/// A row model of a problem, whose engine is the interpreter.
struct Rows {
  explicit Rows(const Problem& problem)
      : model(make_model("test", problem)),
        engines(runtime::cpu::make_cpu_engine(model.model, {})),
        rows(engines, model, Precision::f64, nullptr) {}

  ProblemModel model;
  Engines engines;
  RowModel rows;
};

TEST(RowModel, LinearisesTheUnknownsThatMove) {
  std::vector<double> x = {1, 3, 2, 5};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  problem.set_constant(p, 1, 0b10);
  problem.add_residual(2.0 * (p(0, 0) - 1.0));  // 0, so that its unknown has no gradient
  problem.add_residual(3.0 * (p(0, 1) - 1.0));
  problem.add_residual(p(1, 0) * p(1, 1) - 4.0);
  Rows of(problem);
  const RowModel::Linearised here = of.rows.linearise(x, std::vector<double>{0, 18, 30, 0});
  EXPECT_EQ(here.moving, (std::vector<std::uint32_t>{1, 2}));
  ASSERT_EQ(here.downhill.size(), 4u);
  EXPECT_EQ(here.downhill[0], 0);
  EXPECT_NEAR(here.downhill[1], -2, 1e-14);
  EXPECT_NEAR(here.downhill[2], -1.2, 1e-14);
  EXPECT_EQ(here.downhill[3], 0);
  EXPECT_NEAR(here.terms, std::sqrt(4 + 81 + 100), 1e-12);
  ASSERT_TRUE(here.steps.has_value());
  const Eigen::VectorXd step = here.steps->step(0);
  EXPECT_NEAR(step[0], -2, 1e-13);
  EXPECT_NEAR(step[1], -1.2, 1e-13);
  EXPECT_NEAR(here.steps->promised(0), 36, 1e-12);
}

// Norms of columns within a factor of 100 are alike, whatever a column of zeros is beside them.
TEST(RowModel, ScalesAreThereFromTheFirstLookOn) {
  for (const double steep : {3.0, 3000.0}) {
    std::vector<double> x = {1, 1, 0};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    problem.add_residual(2.0 * p.scalar(0) - 1.0);
    problem.add_residual(steep * p.scalar(1) - 1.0);
    problem.add_residual(square(p.scalar(2)));
    Rows of(problem);
    of.rows.look_now_and_then(x);
    const std::span<const double> scales = of.rows.scales();
    const bool alike = steep < 100;
    ASSERT_EQ(scales.size(), alike ? 0u : 3u) << steep;
    if (alike) continue;
    EXPECT_NEAR(scales[0], 0.25, 1e-15);
    EXPECT_NEAR(scales[1] * steep * steep, 1, 1e-15);
    EXPECT_NEAR(scales[2] * steep * steep, 1, 1e-15);
  }
}

/// ½ atan(x)², with a count of its evaluations.
Objective half_square_of_atan(int& evaluations) {
  return {.size = 1,
          .evaluate =
              [&evaluations](std::span<const double> at, std::span<double> g) {
                ++evaluations;
                const double r = std::atan(at[0]);
                if (!g.empty()) g[0] = r / (1 + at[0] * at[0]);
                return r * r / 2;
              },
          .plus = {}};
}

// Newton's step for atan(x) = 0 from just below 1.3917452 leads nearly as far to the other side:
// its gain is above the rounding of the cost, but not a thousandth of what it promises.
TEST(RowModel, StepsGainAShareOfWhatTheyPromise) {
  std::vector<double> x = {1.39174};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  problem.add_residual(atan(p.scalar(0)));
  Rows of(problem);
  int evaluations = 0;
  const Objective objective = half_square_of_atan(evaluations);
  const double start = std::pow(std::atan(x[0]), 2) / 2;
  const SolverOptions options;
  Summary summary;
  summary.initial_cost = summary.final_cost = start;
  summary.iterations.resize(1);
  EXPECT_EQ(improve(of.rows, objective, {.change = 1e-12}, x, options, summary),
            EndByRows::improved);
  EXPECT_NEAR(x[0], 0, 1e-5);
  double cost = start;
  int counted = 1;  // that of the start
  for (const IterationSummary& step : std::span(summary.iterations).subspan(1)) {
    EXPECT_GT(step.cost_change, 1e-3 * cost);  // the model promises the whole cost
    EXPECT_EQ(step.cost_change, cost - step.cost);
    cost = step.cost;
    counted += step.evaluations;
  }
  EXPECT_GT(summary.iterations.size(), 2u);
  EXPECT_EQ(evaluations, counted);
}

// From 1.3904722 Newton's step for atan(x) = 0 gains 0.0015 of the cost, which is enough.
TEST(RowModel, StepsThatGainAThousandthAreTaken) {
  std::vector<double> x = {1.3904722354486765};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  problem.add_residual(atan(p.scalar(0)));
  Rows of(problem);
  int evaluations = 0;
  const Objective objective = half_square_of_atan(evaluations);
  const double newton = (1 + x[0] * x[0]) * std::atan(x[0]);
  Summary summary;
  summary.initial_cost = summary.final_cost = std::pow(std::atan(x[0]), 2) / 2;
  summary.iterations.resize(1);
  improve(of.rows, objective, {.change = 1e-12}, x, {}, summary);
  ASSERT_GT(summary.iterations.size(), 1u);
  EXPECT_NEAR(summary.iterations[1].step_norm, newton, 1e-9);
  EXPECT_NEAR(summary.iterations[1].cost_change / summary.initial_cost, 0.0015, 1e-5);
}

// A residual is a difference of terms of size 1: 1e-10 of them counts as nothing, if the caller
// says that so small a cost may be zero.
TEST(RowModel, ResidualsThatTheirTermsHideAreZero) {
  for (const auto& [residual, end] :
       {std::pair(0.9e-10, EndByRows::agrees), {1.5e-10, EndByRows::improved}}) {
    std::vector<double> x = {1};
    const double target = 1 - residual;
    Problem problem;
    const Value d = problem.add_parameters(x, 1).scalar(0) - target;
    problem.add_residual(d + 1e7 * square(d));
    Rows of(problem);
    const Objective objective{.size = 1,
                              .evaluate =
                                  [target](std::span<const double> at, std::span<double> g) {
                                    const double e = at[0] - target, r = e + 1e7 * e * e;
                                    if (!g.empty()) g[0] = r * (1 + 2e7 * e);
                                    return r * r / 2;
                                  },
                              .plus = {}};
    Summary summary;
    summary.initial_cost = 1;
    summary.final_cost = residual * residual / 2;
    summary.iterations.resize(1);
    EXPECT_EQ(improve(of.rows, objective, {.change = 0, .zero = 1}, x, {}, summary), end)
        << residual;
  }
}

/// Residuals with curvatures of 1 and 100.
void add_curvatures(Problem& problem, std::vector<double>& x) {
  const Parameters p = problem.add_parameters(x, 1);
  problem.add_residual(p.scalar(0));
  problem.add_residual(10.0 * p.scalar(1) - 0.9);
}

// Nocedal & Wright, algorithm 7.1: at most half of the gradient is left of the first system. With
// curvatures of 1 and 100 one product leaves 98 % of it.
TEST(TruncatedNewton, TheFirstDirectionLeavesHalfOfTheGradient) {
  std::vector<double> x = {1, 0.1};
  Problem problem;
  add_curvatures(problem, x);
  Rows of(problem);
  TruncatedNewton newton(of.engines, of.model.model, of.rows, 100, 1e-10);
  const std::vector<double> g = {1, 1};
  std::vector<double> d(2);
  newton.compute(x, g, {}, d);
  EXPECT_LE(std::hypot(d[0] + g[0], 100 * d[1] + g[1]), 0.5 * std::hypot(g[0], g[1]));
}

// Without a model the direction is that of the gradient in the units of the unknowns, 1 / ‖J_i‖²,
// and the Hessian is not asked for.
TEST(TruncatedNewton, WithoutAModelTheDirectionIsTheScaledGradient) {
  for (const double steep : {3.0, 3000.0}) {
    std::vector<double> x = {1, 1};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    problem.add_residual(2.0 * p.scalar(0));
    problem.add_residual(steep * p.scalar(1));
    Rows of(problem);
    TruncatedNewton newton(of.engines, of.model.model, of.rows, 100, 1e-10);
    ASSERT_TRUE(newton.reset());
    std::vector<double> d(2);
    newton.compute(x, std::vector<double>{8, 6}, {}, d);
    const bool alike = steep < 100;
    EXPECT_NEAR(d[0], alike ? -8 : -8 / 4.0, 1e-14);
    EXPECT_NEAR(d[1] * (alike ? 1 : steep * steep), -6, 1e-14);
    EXPECT_EQ(newton.linear_iterations(), 0);
    EXPECT_EQ(newton.settling(), Settling::loose);
  }
}

// Along a line without curvature no length is the best, and the gradient's own is taken.
TEST(TruncatedNewton, WithoutCurvatureTheDirectionIsTheGradient) {
  std::vector<double> x = {1, 1};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  problem.add_energy(3.0 * p.scalar(0) - 2.0 * p.scalar(1));
  Rows of(problem);
  TruncatedNewton newton(of.engines, of.model.model, of.rows, 100, 1e-10);
  std::vector<double> d(2);
  newton.compute(x, std::vector<double>{3, -2}, {}, d);
  EXPECT_EQ(d, (std::vector<double>{-3, 2}));
}

// A small step asks for a system that is solved as exactly as options ask for.
TEST(TruncatedNewton, TightensToTheLeastTolerance) {
  std::vector<double> x = {1, 0.1};
  Problem problem;
  add_curvatures(problem, x);
  Rows of(problem);
  TruncatedNewton newton(of.engines, of.model.model, of.rows, 100, 1e-10);
  std::vector<double> d(2);
  newton.compute(x, std::vector<double>{1, 100}, {}, d);
  EXPECT_EQ(newton.settling(), Settling::loose);
  newton.tighten();
  newton.compute(x, std::vector<double>{1, 100}, {}, d);
  EXPECT_EQ(newton.settling(), Settling::newton);
  EXPECT_NEAR(d[0], -1, 1e-9);
  EXPECT_NEAR(d[1], -1, 1e-9);
}

// A shift τ of the diagonal of a diagonal Hessian leaves 1 / (1 + τ) of Newton's step. τ is 1e-12
// at first, each step of less than a tenth of its direction multiplies it by 10, and a whole one
// divides it.
TEST(ProjectedNewton, ShortStepsDampTheNextDirections) {
  std::vector<double> x = {3};
  Problem problem;
  problem.add_residual(2.0 * problem.add_parameters(x, 1).scalar(0));
  Rows of(problem);
  const UnknownScales alike;
  ProjectedNewton newton(of.engines, of.model.model, alike);
  const std::vector<double> g = {12};
  const auto share_after = [&](double length, int steps) {
    std::vector<double> d(1);
    for (int k = 0; k < steps; ++k) newton.moved(length, d, d);
    newton.compute(x, g, {}, d);
    return d[0] / -3;
  };
  EXPECT_NEAR(share_after(0.15, 12), 1, 1e-11);
  EXPECT_NEAR(share_after(0.05, 12), 1 / 2.0, 1e-9);
  EXPECT_NEAR(share_after(0.5, 12), 1 / 2.0, 1e-9);
  EXPECT_NEAR(share_after(1, 1), 1 / 1.1, 1e-9);
  EXPECT_NEAR(share_after(1, 20), 1, 1e-11);
}

// Each reset damps Newton's direction more, in the units of the unknowns, until none is left: the
// shifts are 1e-4, 1 and 1e4.
TEST(ProjectedNewton, ResetsShortenADirection) {
  std::vector<double> x = {3, 5};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  problem.add_residual(2.0 * p.scalar(0));
  problem.add_residual(3e6 * p.scalar(1));
  Rows of(problem);
  const UnknownScales alike;
  ProjectedNewton newton(of.engines, of.model.model, alike);
  const std::vector<double> g = {12, 45e12};
  std::vector<double> d(2);
  newton.compute(x, g, {}, d);
  EXPECT_NEAR(d[0], -3, 1e-9);
  EXPECT_NEAR(d[1], -5, 1e-9);
  double share = 1;
  int resets = 0;
  for (; newton.reset(); ++resets) {
    ASSERT_LT(resets, 10);
    newton.compute(x, g, {}, d);
    EXPECT_LT(d[0] / -3, share) << resets;
    share = d[0] / -3;
    EXPECT_NEAR(d[1] / -5, share, 1e-12) << resets;
    EXPECT_NEAR(share * (1 + std::pow(1e4, resets - 1)), 1, 1e-9) << resets;
  }
  EXPECT_EQ(resets, 3);
}

// ½ x² and −¼ x² by themselves have the projected Hessians 1 and 0: each step halves x. From the
// third in a row that promises more than 1 % of the one before, the sum's own Hessian serves.
TEST(ProjectedNewton, SlowStepsGiveWayToTheHessianAsItIs) {
  std::vector<double> x = {8};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  problem.add_energy(0.5 * square(p.scalar(0)));
  problem.add_energy(-0.25 * square(p.scalar(0)));
  const Summary s = solve(problem, {.backend = Backend::cpu,
                                    .method = Method::newton,
                                    .function_tolerance = 0,
                                    .parameter_tolerance = 0});
  ASSERT_GE(s.iterations.size(), 6u);
  for (int k = 0; k <= 4; ++k)
    EXPECT_NEAR(s.iterations[static_cast<std::size_t>(k)].cost, 16 * std::pow(0.25, k), 1e-9) << k;
  EXPECT_NEAR(s.iterations[5].cost, 0, 1e-20);
}

// x₀ is held by its bound: the step of x₁ is that of x₁² − 2 x₁ alone, which ends at 1.
TEST(ProjectedNewton, HeldUnknownsLeaveTheSystem) {
  for (const bool squares : {false, true}) {
    std::vector<double> x = {0, 5};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    const Value a = p.scalar(0), b = p.scalar(1);
    if (squares) {
      problem.add_residual(a + b - 1.0);
      problem.add_residual(2.0 * a - b + 1.0);
      problem.add_residual(6.0 * a + 18.0);
    } else {
      problem.add_energy(square(a) + square(b) + 1.5 * a * b + 10.0 * a - 2.0 * b);
    }
    problem.set_bounds(p, 0, 0, 0, 10);
    const Summary s =
        solve(problem, {.backend = Backend::cpu, .method = Method::newton, .max_iterations = 1});
    EXPECT_EQ(x[0], 0) << s.message;
    EXPECT_NEAR(x[1], 1, 1e-9) << s.message;
  }
}

// The direction of an unknown that is held is 0 until its bound is known.
TEST(ProjectedNewton, HeldUnknownsHaveNoDirection) {
  std::vector<double> x = {3, 5};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  problem.add_residual(2.0 * p.scalar(0) + p.scalar(1));
  problem.add_residual(p.scalar(0) - 3.0 * p.scalar(1));
  Rows of(problem);
  const UnknownScales alike;
  ProjectedNewton newton(of.engines, of.model.model, alike);
  std::vector<double> d(2);
  newton.compute(x, std::vector<double>{7, 20}, std::vector<std::uint8_t>{1, 0}, d);
  EXPECT_EQ(d[0], 0);
  EXPECT_NEAR(d[1], -2, 1e-9) << "alone it has the curvature 1 + 9";
}

TEST(Lbfgs, OptimalityHasNoUnit) {
  // ½ h (x − 1)² in each of two unknowns, from 0 to 1 − d: d of the decrease is left, squared.
  const double d = 1e-3, h[] = {3, 5e8}, unit[] = {1, 1e-4};
  std::vector<double> gradient, way;
  double decrease = 0;
  for (int k = 0; k < 2; ++k) {
    gradient.push_back(-h[k] * d * unit[k]);
    way.push_back((1 - d) * unit[k]);
    decrease += 0.5 * h[k] * unit[k] * unit[k] * (1 - d * d);
  }
  EXPECT_NEAR(optimality_of(gradient, way, decrease), d, 2e-6);
  EXPECT_EQ(optimality_of(std::vector<double>{0, 0}, way, 0), 0);
  EXPECT_TRUE(std::isnan(optimality_of(gradient, way, 0)));
}

TEST(Lbfgs, WalksOnAManifold) {
  // The point of the unit circle with the least y, by the angle of a step.
  const Objective circle{
      .size = 2,
      .tangent_size = 1,
      .evaluate =
          [](std::span<const double> x, std::span<double> g) {
            if (!g.empty()) g[0] = x[0];
            return x[1];
          },
      .plus =
          [](std::span<const double> x, std::span<const double> step, std::span<double> out) {
            const double c = std::cos(step[0]), s = std::sin(step[0]);
            out[0] = c * x[0] - s * x[1];
            out[1] = s * x[0] + c * x[1];
          }};
  std::vector<double> x = {1, 0};
  Summary summary;
  minimize_lbfgs(circle, x, {.function_tolerance = 1e-15}, summary);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
  EXPECT_NEAR(x[0], 0, 1e-5);
  EXPECT_NEAR(x[1], -1, 1e-9);
}

TEST(FirstOrder, KeepsTheBestPointAndRefusesWhatIsNotFinite) {
  // x² + 1 with a hole above 1.5; the first steps of gradient descent overshoot.
  const Objective hole{.size = 1,
                       .evaluate =
                           [](std::span<const double> x, std::span<double> g) {
                             if (!g.empty()) g[0] = 2 * x[0];
                             return x[0] < 1.5 ? x[0] * x[0] + 1 : kNan;
                           },
                       .plus = {}};
  std::vector<double> x = {-1};
  Summary summary;
  minimize_first_order(hole, x,
                       {.method = Method::sgd,
                        .max_iterations = 60,
                        .gradient_tolerance = 1e-8,
                        .first_order = {.learning_rate = 1.4}},
                       summary);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_EQ(summary.num_nonfinite_steps, 1);
  EXPECT_NEAR(x[0], 0, 1e-8);
  EXPECT_NEAR(summary.final_cost, 1, 1e-15);
}

TEST(FirstOrder, FirstStepsAreThePublishedOnes) {
  // f = 3 x: every gradient is 3. Adam moves by the rate; decay also removes a share of x.
  const Objective slope{.size = 1,
                        .evaluate =
                            [](std::span<const double> x, std::span<double> g) {
                              if (!g.empty()) g[0] = 3;
                              return 3 * x[0];
                            },
                        .plus = {}};
  const struct {
    Method method;
    double after;
  } rows[] = {{Method::adam, 2 - 3 * 0.1},
              {Method::adamw, (((2 * 0.95) - 0.1) * 0.95 - 0.1) * 0.95 - 0.1},
              {Method::sgd, 2 - 0.1 * 3 * (1 + 1.5 + 1.75)}};
  for (const auto& row : rows) {
    std::vector<double> x = {2};
    Summary summary;
    minimize_first_order(
        slope, x,
        {.method = row.method,
         .max_iterations = 3,
         .first_order = {.learning_rate = 0.1, .weight_decay = 0.5, .momentum = 0.5}},
        summary);
    EXPECT_NEAR(x[0], row.after, 1e-8) << name(row.method);
    EXPECT_EQ(summary.termination, Termination::NO_CONVERGENCE);
  }
}

/// Quartic wells (x² − 1)² / 4 + 0.1 x y by energies, and a residual that pulls y to 3 x.
struct Wells {
  std::vector<double> x = {0.3, 0.2};
  Problem problem;
  Parameters p = problem.add_parameters(x);
  Wells() {
    const Value a = p[0], b = p[1];
    problem.add_energy(0.25 * square(square(a) - 1.0), {.label = "well"});
    problem.add_energy(0.1 * a * b, {.label = "tilt"});
    problem.add_residual(b - 3.0 * a, {.label = "pull"});
  }
  /// dF/da and dF/db at the end.
  std::vector<double> slopes() const {
    const double a = x[0], b = x[1];
    return {a * (a * a - 1) + 0.1 * b - 3 * (b - 3 * a), 0.1 * a + b - 3 * a};
  }
};

TEST(Solve, MinimisesEnergiesByEveryMethodThatTakesThem) {
  const struct {
    Method method;
    LinearSolver linear;
    int most;
    FirstOrderOptions rates;
  } rows[] = {
      {Method::lbfgs, LinearSolver::automatic, 30, {}},
      {Method::newton, LinearSolver::cholesky, 15, {}},
      {Method::newton, LinearSolver::pcg, 25, {}},
      {Method::adam, LinearSolver::automatic, 3000, {.learning_rate = 0.02}},
      {Method::adamw, LinearSolver::automatic, 3000, {.learning_rate = 0.02, .weight_decay = 0}},
      {Method::sgd, LinearSolver::automatic, 3000, {.learning_rate = 0.1, .momentum = 0.5}}};
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(name(row.method)) + ", " + std::string(name(row.linear)));
    Wells wells;
    const Summary summary = solve(wells.problem, {.backend = Backend::cpu,
                                                  .method = row.method,
                                                  .linear_solver = row.linear,
                                                  .max_iterations = row.most,
                                                  .function_tolerance = 0,
                                                  .gradient_tolerance = 1e-9,
                                                  .parameter_tolerance = 0,
                                                  .first_order = row.rates});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.full_report();
    // F with the best b, 2.9 a, is a⁴/4 − a²/2 + 1/4 + 0.295 a²: a² = 1 − 0.59.
    EXPECT_NEAR(wells.x[0] * wells.x[0], 0.41, 1e-7);
    for (const double slope : wells.slopes()) EXPECT_NEAR(slope, 0, 1e-8);
    EXPECT_NEAR(summary.final_cost, 0.25 - 0.41 * 0.41 / 4, 1e-12);
    EXPECT_EQ(summary.energies, 2u);
    EXPECT_EQ(summary.residuals, 1u);
  }
}

// Springs have several minima; these two methods, with unrelated directions, find the same one.
TEST(Solve, LbfgsAndNewtonReachTheSameMinimumOfLeastSquares) {
  const auto least = [](Method method) {
    const auto springs = problems::springs(8);
    const Summary summary = solve(springs->problem, {.backend = Backend::cpu,
                                                     .method = method,
                                                     .max_iterations = 400,
                                                     .function_tolerance = 1e-14});
    EXPECT_TRUE(summary.is_solution_usable()) << summary.message;
    return summary.final_cost;
  };
  const double by_lbfgs = least(Method::lbfgs), by_newton = least(Method::newton);
  EXPECT_NEAR(by_lbfgs, by_newton, 1e-9 * by_newton);
  EXPECT_LE(by_newton, least(Method::levenberg_marquardt));
}

/// Masses of weight 9.81 on springs hang between two nails and may move in a plane.
struct HangingChain {
  HangingChain(std::size_t masses, double stiffness_) : stiffness(stiffness_) {
    const double span = 0.7 * static_cast<double>(masses + 1);
    for (std::size_t k = 0; k < masses + 2; ++k)
      x.insert(x.end(), {span * static_cast<double>(k) / static_cast<double>(masses + 1), 0});
    const Parameters p = problem.add_parameters(x, 2);
    for (std::size_t k = 0; k + 1 < masses + 2; ++k)
      problem.add_energy(0.5 * stiffness * square(norm(p.vec2(k + 1) - p.vec2(k)) - 1.0));
    for (std::size_t k = 1; k <= masses; ++k) problem.add_energy(kWeight * p(k, 1));
    problem.set_constant(p, 0);
    problem.set_constant(p, masses + 1);
  }

  /// The largest component of a force that is left, in weights of a mass.
  double force() const {
    double most = 0;
    for (std::size_t k = 1; k + 2 < x.size() / 2; ++k) {
      double f[2] = {0, -kWeight};
      for (const std::size_t other : {k - 1, k + 1}) {
        const double a = x[2 * other] - x[2 * k], b = x[2 * other + 1] - x[2 * k + 1];
        const double length = std::hypot(a, b), pull = stiffness * (length - 1) / length;
        f[0] += pull * a;
        f[1] += pull * b;
      }
      most = std::max({most, std::abs(f[0]) / kWeight, std::abs(f[1]) / kWeight});
    }
    return most;
  }

  static constexpr double kWeight = 9.81;
  double stiffness;
  std::vector<double> x;
  Problem problem;
};

// The gain that a gradient promises and the one that the verdict denies have one unit.
TEST(Solve, UnitsOfEnergiesChangeNoVerdict) {
  const auto solved = [](Method method, double energy) {
    std::vector<double> x = {-1.2, 1, 3};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 3);
    problem.add_energy(energy * (100.0 * square(p(0, 1) - square(p(0, 0))) + square(1.0 - p(0, 0)) +
                                 square(square(p(0, 2)))));
    SolverOptions options{.backend = Backend::cpu, .method = method};
    options.function_tolerance = options.parameter_tolerance = 1e-4;
    options.gradient_tolerance = 0;
    options.max_iterations = 500;
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    // The numbers of the message have the unit.
    return std::pair(summary.num_iterations(),
                     summary.message.substr(0, summary.message.find(':')));
  };
  for (const Method method : {Method::lbfgs, Method::newton}) {
    const auto plain = solved(method, 1);
    for (const double energy : {0x1p-40, 0x1p40}) {
      const auto scaled = solved(method, energy);
      EXPECT_EQ(scaled.first, plain.first) << name(method) << ", " << energy;
      EXPECT_EQ(scaled.second, plain.second) << name(method) << ", " << energy;
    }
  }
}

// At the start the curvature is 1e-12: Newton's step promises 1e8 times the cost, and is cut.
TEST(Solve, UnitsOfALineChangeNoStep) {
  const auto evaluations = [](double energy) {
    std::vector<double> x = {1};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    problem.add_energy(energy * sqrt(1.0 + square(p.scalar(0) - 1e4)));
    const Summary summary = solve(problem, {.backend = Backend::cpu, .method = Method::newton});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_NEAR(x[0], 1e4, 1e-3);
    std::vector<int> out;
    for (const IterationSummary& step : summary.iterations) out.push_back(step.evaluations);
    return out;
  };
  const std::vector<int> plain = evaluations(1);
  for (const double energy : {0x1p-60, 0x1p40}) EXPECT_EQ(evaluations(energy), plain) << energy;
}

TEST(Solve, ConvergenceLeavesNoForces) {
  for (const double stiffness : {1e2, 1e4, 1e6}) {
    HangingChain chain(20, stiffness);
    const Summary s =
        solve(chain.problem,
              {.backend = Backend::cpu, .method = Method::lbfgs, .max_iterations = 20'000});
    EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
    EXPECT_LE(chain.force(), 0.2) << stiffness << ": " << s.message;
    EXPECT_LE(s.optimality, 1e-2) << stiffness;
    EXPECT_GT(s.optimality, 0) << stiffness;
  }
}

TEST(Solve, NewtonMovesFromABoundWhereLossesAreFlat) {
  // Σ w ρ(p − y) with Huber's ρ: its derivative rises with p, and bisection finds where it is 0.
  const std::vector<double> y = {0.31, -1.4, 0.02, 2.2, 0.55, 0.4, -0.3, 0.45, 0.61, 5.0};
  constexpr double kHuber = 0.05;
  const auto slope = [&](double p) {
    double sum = 0;
    for (std::size_t k = 0; k < y.size(); ++k)
      sum += static_cast<double>(k % 3 + 1) * std::clamp(p - y[k], -kHuber, kHuber);
    return sum;
  };
  double low = -3, high = 6;
  for (int k = 0; k < 100; ++k) (slope((low + high) / 2) > 0 ? high : low) = (low + high) / 2;
  for (const double start : {-0.8, -2.9, 5.5}) {
    std::vector<double> x = {start};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    problem.set_bounds(p, 0, 0, -3, std::numeric_limits<double>::infinity());
    for (std::size_t k = 0; k < y.size(); ++k)
      problem.add_residual(std::sqrt(static_cast<double>(k % 3 + 1)) * (p[0] - y[k]),
                           {.loss = Loss::huber(kHuber * std::sqrt(k % 3 + 1.0))});
    const Summary s = solve(problem, {.backend = Backend::cpu,
                                      .method = Method::newton,
                                      .max_iterations = 100,
                                      .function_tolerance = 1e-12});
    EXPECT_EQ(s.termination, Termination::CONVERGENCE) << start << ": " << s.message;
    EXPECT_NEAR(x[0], low, 1e-6) << start;
  }
}

TEST(Solve, ConstantScalarsStayInDescent) {
  for (const Method method : {Method::lbfgs, Method::newton, Method::adamw}) {
    Wells wells;
    wells.problem.set_constant(wells.p, 1);
    const Summary summary = solve(wells.problem, {.backend = Backend::cpu, .method = method});
    EXPECT_EQ(wells.x[1], 0.2) << name(method);
    EXPECT_LT(summary.final_cost, summary.initial_cost) << name(method);
  }
}

// In products with the Hessian, too, where all others pull at it. What a bound holds stays the same
// way, and takes the same steps.
TEST(Solve, HeldScalarsStayInTruncatedNewton) {
  const auto steps = [](bool by_bound) {
    std::vector<double> x = {3, 0.5, -2, 1, 7};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    if (by_bound)
      problem.set_lower_bound(p, 0, 0, 3);
    else
      problem.set_constant(p, 0);
    problem.add_energy(1000.0 * p.scalar(0));
    for (std::size_t k = 1; k < x.size(); ++k) {
      const auto n = static_cast<double>(k);
      problem.add_energy(square(p.scalar(k) - n * p.scalar(0)) + cosh(p.scalar(k) - 3 * n));
    }
    const Summary summary = solve(problem, {.backend = Backend::cpu,
                                            .method = Method::newton,
                                            .linear_solver = LinearSolver::pcg,
                                            .max_iterations = 50});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_EQ(x[0], 3);
    for (std::size_t k = 1; k < x.size(); ++k)
      EXPECT_NEAR(x[k], 3.0 * static_cast<double>(k), 1e-6);
    return summary.num_iterations();
  };
  EXPECT_EQ(steps(true), steps(false));
}

// ¼ (b² − a)² has a saddle at b = 0 and, for the constant a = 1, its minima at b = ±1.
TEST(Solve, EscapesFromSaddlesLeaveConstantsAlone) {
  for (const Method method : {Method::lbfgs, Method::newton}) {
    std::vector<double> x = {1, 0};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    problem.set_constant(p, 0);
    problem.add_energy(0.25 * square(square(p.scalar(1)) - p.scalar(0)));
    const Summary s =
        solve(problem, {.backend = Backend::cpu, .method = method, .function_tolerance = 1e-10});
    EXPECT_EQ(s.num_escapes, 1) << name(method);
    EXPECT_EQ(x[0], 1) << name(method);
    EXPECT_NEAR(std::abs(x[1]), 1, 1e-4) << name(method);
    for (std::size_t k = 1; k < s.iterations.size(); ++k)
      EXPECT_EQ(s.iterations[k].cost_change, s.iterations[k - 1].cost - s.iterations[k].cost) << k;
  }
}

// An escape moves by a random part of a thousandth of the size of x.
TEST(Solve, EscapesAreShort) {
  const Objective saddle{.size = 3,
                         .evaluate =
                             [](std::span<const double> x, std::span<double> g) {
                               double sum = 0;
                               for (std::size_t k = 0; k < 3; ++k) {
                                 const double d = x[k] - 5;
                                 sum -= d * d;
                                 if (!g.empty()) g[k] = -2 * d;
                               }
                               return sum;
                             },
                         .plus = {}};
  std::vector<double> x(3, 5.0);
  Summary summary;
  summary.termination = Termination::CONVERGENCE;
  summary.iterations.resize(1);
  ASSERT_TRUE(escape(saddle, x, {}, summary));
  double most = 0;
  for (const double v : x) most = std::max(most, std::abs(v - 5));
  EXPECT_LE(most, 5e-3);
  EXPECT_GE(most, 5e-4);
  EXPECT_LT(summary.final_cost, 0);
  EXPECT_EQ(summary.iterations.back().cost_change, -summary.final_cost);
  EXPECT_EQ(summary.iterations.back().evaluations, 2) << "both sides";
}

TEST(Solve, CallbacksStopDescent) {
  Wells wells;
  const Summary summary = solve(
      wells.problem,
      {.backend = Backend::cpu, .method = Method::lbfgs, .callback = [](const IterationSummary& i) {
         return i.iteration < 2 ? CallbackReturn::SOLVER_CONTINUE : CallbackReturn::SOLVER_ABORT;
       }});
  EXPECT_EQ(summary.termination, Termination::USER_FAILURE);
  EXPECT_EQ(summary.num_iterations(), 2);
  EXPECT_NE(wells.x[0], 0.3);
}

TEST(Solve, TakesLbfgsForEnergiesByItself) {
  Wells wells, same;
  const Summary chosen = solve(wells.problem, {.backend = Backend::cpu});
  const Summary asked = solve(same.problem, {.backend = Backend::cpu, .method = Method::lbfgs});
  EXPECT_EQ(chosen.method, Method::lbfgs);
  EXPECT_EQ(chosen.method_note, "chosen for the energies, which are no squares");
  EXPECT_NE(chosen.full_report().find("lbfgs\n  why: chosen for the energies"), std::string::npos);
  EXPECT_EQ(asked.method_note, "");
  EXPECT_EQ(wells.x, same.x);
  EXPECT_LT(chosen.final_cost, chosen.initial_cost);

  std::vector<double> x = {3};
  Problem squares;
  squares.add_residual(squares.add_parameters(x)[0] - 1.0);
  const Summary summary = solve(squares, {.backend = Backend::cpu});
  EXPECT_EQ(summary.method, Method::levenberg_marquardt);
  EXPECT_EQ(summary.method_note, "");
}

// The minimum of xᵀA x on the sphere is A's smallest eigenvalue: for the second differences of n
// points 2 - 2 cos(π / (n + 1)).
TEST(Solve, LbfgsMovesOnManifolds) {
  constexpr std::size_t kPoints = 6;
  std::vector<double> x = {1, 0.2, -0.3, 0.4, 0.1, 0.5}, other = {2};
  Problem problem;
  const Parameters p = problem.add_parameters(x, kPoints), q = problem.add_parameters(other);
  problem.set_manifold(p, Manifold::sphere(kPoints));
  double norm = 0;
  for (const double v : x) norm += v * v;
  Value sum = 0.0;
  for (int k = 0; k < static_cast<int>(kPoints); ++k) {
    sum += 2.0 * square(p(0, k));
    if (k > 0) sum -= 2.0 * p(0, k) * p(0, k - 1);
  }
  problem.add_energy(sum);
  problem.add_energy(square(q[0] - 1.0));
  const Summary summary =
      solve(problem, {.backend = Backend::cpu, .max_iterations = 200, .function_tolerance = 1e-15});
  EXPECT_EQ(summary.method, Method::lbfgs);
  EXPECT_NEAR(summary.final_cost, norm * (2 - 2 * std::cos(std::numbers::pi / 7)), 1e-9);
  double after = 0;
  for (const double v : x) after += v * v;
  EXPECT_NEAR(after, norm, 1e-12);
  EXPECT_NEAR(other[0], 1, 1e-5);
}

// Summary::optimality is |g·t| |way·t| / (2 decrease) with the unit tangent t of a circle.
TEST(Solve, OptimalityOnACircleIsThatOfItsTangent) {
  const std::vector<double> start = {1.2, 1.6};
  std::vector<double> x = start;
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  problem.set_manifold(p, Manifold::sphere(2));
  const auto energy = [](const auto& a, const auto& b) {
    return (a - 3.0) * (a - 3.0) + 3.0 * b * b + a * b;
  };
  problem.add_energy(energy(p(0, 0), p(0, 1)));
  SolverOptions options{.backend = Backend::cpu, .scale_free = false};
  options.gradient_tolerance = 0.5;  // it ends far from the minimum
  const Summary s = solve(problem, options);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  const double t[] = {-x[1] / 2, x[0] / 2};
  const double slope = (2 * (x[0] - 3) + x[1]) * t[0] + (6 * x[1] + x[0]) * t[1];
  const double way = (x[0] - start[0]) * t[0] + (x[1] - start[1]) * t[1];
  const double decrease = energy(start[0], start[1]) - energy(x[0], x[1]);
  EXPECT_GT(s.optimality, 1e-6);
  EXPECT_NEAR(s.optimality / (std::abs(slope * way) / (2 * decrease)), 1, 1e-6);
}

TEST(Solve, EnergyMistakesHaveTheirTexts) {
  const struct {
    const char* error;
    std::function<void(Wells&)> call;
  } rows[] = {
      {"unsupported: solve: levenberg_marquardt minimises sums of squares, the energy \"well\" is "
       "none; use lbfgs, newton, adam, adamw or sgd",
       [](Wells& w) {
         solve(w.problem, {.backend = Backend::cpu, .method = Method::levenberg_marquardt});
       }},
      {"unsupported: solve: gauss_newton minimises sums of squares, the energy \"well\" is none; "
       "use "
       "lbfgs, newton, adam, adamw or sgd",
       [](Wells& w) {
         solve(w.problem, {.backend = Backend::cpu, .method = Method::gauss_newton});
       }},
      {"invalid_argument: options: first_order.beta1 must be in [0, 1), got 1",
       [](Wells& w) { solve(w.problem, {.method = Method::adam, .first_order = {.beta1 = 1}}); }},
  };
  for (const auto& row : rows) {
    Wells wells;
    try {
      row.call(wells);
      ADD_FAILURE() << "no error: " << row.error;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(name(error.code())) + ": " + error.what(), row.error);
    }
    EXPECT_EQ(wells.x, (std::vector<double>{0.3, 0.2}));
  }
}

// A number after it took its place.
TEST(Lbfgs, OneEntryOfTheGradientThatIsNotANumberIsRefused) {
  for (std::size_t bad = 0; bad < 3; ++bad) {
    const auto evaluate = [bad](std::span<const double> x, std::span<double> gradient) {
      for (std::size_t k = 0; k < gradient.size(); ++k)
        gradient[k] = k == bad ? std::nan("") : x[k];
      return 1.0;
    };
    std::vector<double> x = {1, 2, 3};
    Summary summary;
    EXPECT_THROW(minimize_lbfgs({.size = 3, .evaluate = evaluate}, x, {}, summary), Error) << bad;
  }
}

TEST(Solve, NamesTheEnergyThatIsNotFinite) {
  std::vector<double> x = {-1.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_energy(log(p[0]), {.label = "barrier"});
  try {
    solve(problem, {.backend = Backend::cpu, .method = Method::lbfgs});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NonFinite);
    const std::string message = error.what();
    EXPECT_EQ(message.find("solve: energy \"barrier\" #0 (topology "), 0u) << message;
    EXPECT_NE(message.find("is nan: log(-1) is nan"), message.npos) << message;
  }
}

/// −log of Poisson's likelihood of 60 counts that are their means a e^(−b t), up to a constant: the
/// minimum is at a and b exactly.
struct Counts {
  Counts(double a_, double b_) : a(a_), b(b_), x{a / 2, 2 * b} {
    for (int k = 0; k < 60; ++k) {
      t.push_back(0.06 * k / b);
      y.push_back(a * std::exp(-b * t.back()));
    }
  }
  void add_to(Problem& problem) {
    const Parameters p = problem.add_parameters(x, 2);
    for (std::size_t k = 0; k < t.size(); ++k) {
      const Value rate = log(p(0, 0)) - p(0, 1) * t[k];
      problem.add_energy(exp(rate) - y[k] * rate);
    }
  }
  /// The same as a function.
  double evaluate(std::span<const double> at, std::span<double> gradient) const {
    double cost = 0;
    std::ranges::fill(gradient, 0.0);
    for (std::size_t k = 0; k < t.size(); ++k) {
      const double rate = std::log(at[0]) - at[1] * t[k], slope = std::exp(rate) - y[k];
      cost += std::exp(rate) - y[k] * rate;
      if (gradient.empty()) continue;
      gradient[0] += slope / at[0];
      gradient[1] -= slope * t[k];
    }
    return cost;
  }
  void expect_found(const std::string& where) const {
    EXPECT_NEAR(x[0] / a, 1, 2e-3) << where;
    EXPECT_NEAR(x[1] / b, 1, 2e-3) << where;
  }

  double a, b;
  std::vector<double> x, t, y;
};

// The gradient of a large unknown is small beside that of a small one.
TEST(EndByDifferences, AnUnknownInOtherUnitsIsMoved) {
  for (const double a : {10.0, 1e3, 1e6}) {
    for (const double b : {1e3, 0.1, 1e-3, 1e-6}) {
      const std::string where = std::to_string(a) + ", " + std::to_string(b);
      for (const Method method : {Method::lbfgs, Method::newton}) {
        Counts counts(a, b);
        Problem problem;
        counts.add_to(problem);
        const Summary summary = solve(problem, {.backend = Backend::cpu, .method = method});
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where << summary.message;
        counts.expect_found(where + " by " + std::string(name(method)));
      }
      for (const bool scale_free : {true, false}) {
        if (!scale_free && b < 1e-3) continue;  // its first step has a length of its own
        Counts counts(a, b);
        Summary summary;
        minimize_lbfgs({.size = 2,
                        .evaluate = [&](std::span<const double> x,
                                        std::span<double> g) { return counts.evaluate(x, g); },
                        .plus = {}},
                       counts.x, {.max_iterations = 200, .scale_free = scale_free}, summary);
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where << summary.message;
        counts.expect_found(where + (scale_free ? ", a function" : ", a function by Ceres' rules"));
      }
    }
  }
}

// x y + (x⁴ + y⁴)/4 has its minima of −½ at (1, −1) and (−1, 1). From x = y no gradient leads
// there.
TEST(EndByDifferences, ASaddleOfTwoUnknownsIsLeft) {
  for (const Method method : {Method::lbfgs, Method::newton}) {
    for (const double start : {0.0, 1e-17, 1.0, 2.0}) {
      for (const double unit : {1.0, 0x1p40, 0x1p-40}) {
        std::vector<double> x = {start * unit, start * unit};
        Problem problem;
        const Parameters p = problem.add_parameters(x, 2);
        const Value a = p(0, 0) / unit, b = p(0, 1) / unit;
        problem.add_energy(a * b + 0.25 * (square(square(a)) + square(square(b))));
        const Summary summary = solve(problem, {.backend = Backend::cpu, .method = method});
        EXPECT_NEAR(summary.final_cost, -0.5, 1e-6)
            << name(method) << start << ", " << unit << ": " << summary.message;
      }
    }
  }
}

// An energy has no natural zero.
TEST(Solve, AConstantMovesNoEndOfEnergies) {
  for (const Method method : {Method::lbfgs, Method::newton}) {
    for (const double constant : {0.0, 1e4, 1e8, -1e8}) {
      std::vector<double> x = {-1.2, 1};
      Problem problem;
      const Parameters p = problem.add_parameters(x, 2);
      problem.add_energy(100.0 * square(p(0, 1) - square(p(0, 0))) + square(1.0 - p(0, 0)) +
                         constant);
      const Summary summary = solve(problem, {.backend = Backend::cpu, .method = method});
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
      EXPECT_NEAR(x[0], 1, 1e-3) << name(method) << ", " << constant << ": " << summary.message;
    }
  }
}

// Three atoms, two of which are so close that the start is 1e13 times as steep as what follows.
TEST(Solve, ASteepStartIsNoMeasureOfTheEnd) {
  for (const double close : {0.3, 0.1, 0.05}) {
    std::vector<double> x = {0, 0, 0, close, 0, 0, 0.4, 1.1, 0.2};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 3);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        Value d = 0.0;
        for (std::size_t c = 0; c < 3; ++c) d = d + square(p(i, c) - p(j, c));
        problem.add_energy(4.0 * (1.0 / square(d * d * d) - 1.0 / (d * d * d)));
      }
    }
    const Summary summary = solve(problem, {.backend = Backend::cpu, .max_iterations = 500});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_NEAR(summary.final_cost, -3, 1e-4) << close << ": " << summary.message;
  }
}

// A cost that is 1e-20 of the one at the start counts as zero: no step of the rows' model follows,
// which would leave its rounding.
TEST(LastCheck, ACostOfNothingGainsNothing) {
  std::vector<double> x(6, -1.2);
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (std::size_t k = 1; k < x.size(); ++k) {
    problem.add_residual(10.0 * (p[k] - square(p[k - 1])));
    problem.add_residual(1.0 - p[k - 1]);
  }
  SolverOptions options{.backend = Backend::cpu, .method = Method::lbfgs};
  options.function_tolerance = options.parameter_tolerance = 1e-3;
  options.max_iterations = 100;
  const Summary s = solve(problem, options);
  EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_LT(s.final_cost, 1e-20 * s.initial_cost);
  EXPECT_GT(s.final_cost, 1e-24 * s.initial_cost);
}

// Newton's steps to a quadruple root take a third of the way, and those of the rows' model half of
// it. The latter follow at the end, two at a time; after three returns it is the end all the same.
TEST(LastCheck, ADescentGoesOnThreeTimes) {
  std::vector<double> x(6, -1.2);
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (std::size_t k = 0; k < x.size(); ++k)
    problem.add_residual(std::pow(10.0, -static_cast<double>(k)) * square(p[k] - 1.0));
  SolverOptions options{.backend = Backend::cpu, .method = Method::newton};
  options.function_tolerance = 1e-3;
  options.max_iterations = 100;
  const Summary s = solve(problem, options);
  EXPECT_NE(s.message.find("but the gradient promises more"), std::string::npos) << s.message;
  int halves = 0;
  for (const IterationSummary& one : s.iterations)
    halves += std::abs(one.cost_change / one.cost - 15) < 0.1 ? 1 : 0;
  EXPECT_EQ(halves, 2 * (1 + 3));
}

}  // namespace
}  // namespace topograd
