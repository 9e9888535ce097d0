// Running error bounds: which answers are certain.
#include "../../ir/checking/error_bound.hpp"
#include "../../ir/graph.hpp"

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
