// Running error bounds: which answers are certain.
#include <topograd/ir/error_bound.hpp>
#include <topograd/ir/graph.hpp>

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
