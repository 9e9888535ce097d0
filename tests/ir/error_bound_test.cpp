// Running error bounds: which answers are certain.
#include "../../ir/checking/error_bound.hpp"
#include "../../ir/program.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace topograd::test {
namespace {

using ir::Op;

/// op(x, (cbrt x)³ + shift): the cube of a rounded root may be x or its neighbour.
bool decided(Op op, double x, double shift) {
  ir::Graph g;
  const ir::Id p = g.leaf(Op::Parameter, 0);
  const ir::Id back = g.add(Op::Add, g.add(Op::Cube, g.add(Op::Cbrt, p)), g.literal(shift));
  const std::vector<ir::Id> outputs = {g.add(op, p, back)};
  const std::array<double, 1> at = {x};
  return ir::running_error<double>(g.extract(outputs, {.parameters = 1}), {.parameters = at})
      .decided;
}

TEST(ErrorBound, EqualityInsideOfItIsUndecided) {
  for (const Op op : {Op::Eq, Op::Ne}) {
    for (const double x : {3.0, -0.7, 1e-300, std::numeric_limits<double>::denorm_min(), 1e300}) {
      EXPECT_FALSE(decided(op, x, 0)) << x;
      EXPECT_TRUE(decided(op, x, 1e301)) << x;
    }
  }
}

/// select(x < (cbrt x)³, a, b): either may be chosen.
ir::RunningError either(double a, double b) {
  ir::Graph g;
  const ir::Id p = g.leaf(Op::Parameter, 0);
  const ir::Id below = g.add(Op::Lt, p, g.add(Op::Cube, g.add(Op::Cbrt, p)));
  const std::vector<ir::Id> outputs = {
      g.add(Op::Select, below, g.leaf(Op::Parameter, 1), g.leaf(Op::Parameter, 2))};
  const std::array<double, 3> at = {3, a, b};
  return ir::running_error<double>(g.extract(outputs, {.parameters = 3}), {.parameters = at});
}

TEST(ErrorBound, AChoiceBetweenNearNumbersIsBoundedByBoth) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const ir::RunningError near = either(2, 2.01);
  EXPECT_TRUE(near.decided);
  EXPECT_TRUE(near.nodes.back().contains(2));
  EXPECT_TRUE(near.nodes.back().contains(2.01));
  EXPECT_FALSE(near.nodes.back().contains(1.99));
  EXPECT_FALSE(near.nodes.back().contains(2.02));
  EXPECT_TRUE(either(0, -0.0).decided);
  EXPECT_FALSE(either(2, 3).decided);
  EXPECT_FALSE(either(kInf, kInf).decided);
  EXPECT_FALSE(either(2, std::numeric_limits<double>::quiet_NaN()).decided);
}

// A periodic op may have equal values at both ends of an interval and anything between.
TEST(ErrorBound, NothingIsKnownOfAPeriodicOpBeyondAPeriod) {
  const struct {
    Op inner, outer;
    float x, other;
    bool known;
  } rows[] = {{Op::Sqrt, Op::Mod, 4.2f, 0x1p-23f, false}, {Op::Sqrt, Op::Mod, 4.2f, 0.3f, true},
              {Op::Exp, Op::Sin, 20, 0, false},           {Op::Exp, Op::Sin, 3, 0, true},
              {Op::Exp, Op::Cos, 22, 0, false},           {Op::Exp, Op::Tan, 21, 0, false}};
  for (const auto& row : rows) {
    ir::Graph g;
    const ir::Id inner = g.add(row.inner, g.leaf(Op::Parameter, 0));
    const std::vector<ir::Id> outputs = {g.add(row.outer, inner, g.leaf(Op::Parameter, 1))};
    const ir::Program program = g.extract(outputs, {.parameters = 2});
    const std::array<float, 2> at = {row.x, row.other};
    const ir::RunningError error = ir::running_error<float>(program, {.parameters = at});
    EXPECT_EQ(error.decided && error.nodes[program.outputs[0]].known(), row.known)
        << ir::info(row.outer).name << " of " << ir::info(row.inner).name << " at " << row.x;
  }
}

// Rounded to float, erf(-5.1) is -1.
TEST(ErrorBound, PowersOfNegativeNumbersMayHaveAWholeExponent) {
  for (const float base : {-1.2f, 1.2f}) {
    ir::Graph g;
    const ir::Id exponent = g.add(Op::Erf, g.leaf(Op::Parameter, 0));
    const std::vector<ir::Id> outputs = {g.add(Op::Pow, g.leaf(Op::Parameter, 1), exponent)};
    const ir::Program program = g.extract(outputs, {.parameters = 2});
    const std::array<float, 2> at = {-5.1f, base};
    const ir::RunningError error = ir::running_error<float>(program, {.parameters = at});
    EXPECT_EQ(error.nodes[program.outputs[0]].known(), base > 0) << base;
  }
}

TEST(ErrorBound, ANumberIsItself) {
  ir::Graph g;
  const ir::Id root = g.add(Op::Cbrt, g.leaf(Op::Parameter, 0));
  const std::vector<ir::Id> outputs = {g.add(Op::Eq, root, root)};
  const std::array<double, 1> at = {3};
  const ir::RunningError error =
      ir::running_error<double>(g.extract(outputs, {.parameters = 1}), {.parameters = at});
  EXPECT_TRUE(error.decided);
}

}  // namespace
}  // namespace topograd::test
