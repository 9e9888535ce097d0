// Sweeps with numbers against programs of derivatives, and against closed forms.
#include "../../autodiff/node_sweep.hpp"

#include <gtest/gtest.h>
#include "../../autodiff/derivatives.hpp"
#include "../../ir/graph.hpp"

#include <array>
#include <cmath>
#include <string>

#include "../support/random_program.hpp"

namespace topograd::test {
namespace {

using autodiff::NodeSweep;
using ir::Op;
using Numbers = std::vector<double>;

struct Linearization {
  Numbers rows, jacobian;
};

/// By a NodeSweep; the Jacobian is row-major.
Linearization swept(const ir::Program& f, const ir::Inputs<double>& in,
                    NodeSweep::Workspace& work) {
  const NodeSweep sweep(f);
  const std::size_t m = sweep.rows(), n = sweep.parameters();
  Linearization out{Numbers(m), Numbers(m * n, NAN)};
  std::vector<NodeSweep::Column> columns;
  for (std::size_t k = 0; k < n; ++k) columns.push_back({out.jacobian.data() + k, n});
  sweep.linearize(in, out.rows, columns, work);
  Numbers again(m);
  sweep.evaluate(in, again, work);
  for (std::size_t k = 0; k < m; ++k) EXPECT_TRUE(ir::same_bits(again[k], out.rows[k]));
  return out;
}

bool agree(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= 1e-12 * (1 + std::fabs(a) + std::fabs(b));
}

TEST(NodeSweep, HasTheDerivativeRulesOfEveryOp) {
  NodeSweep::Workspace work;
  for (const Op op : ir::all_ops()) {
    ir::Graph graph;
    std::array<ir::Id, 3> p{};
    for (std::uint32_t k = 0; k < 3; ++k) p[k] = graph.leaf(Op::Parameter, k);
    const ir::Id y = graph.add(op, p[0], p[1], p[2]);
    const ir::Program f = graph.extract(std::array{y}, {.parameters = 3});
    const ir::Program J = autodiff::jacobian(f, autodiff::all_slots(f));
    for (std::uint64_t draw = 0; draw < 200; ++draw) {
      const ir::Point at = ir::random_point(draw, f.leaves, draw < 100 ? 0 : 0.5);
      const Numbers expected = ir::evaluate<double>(J, at.inputs());
      const Linearization got = swept(f, at.inputs(), work);
      EXPECT_TRUE(ir::same_bits(got.rows[0], ir::evaluate<double>(f, at.inputs())[0]));
      for (int k = 0; k < ir::arity(op); ++k)
        EXPECT_TRUE(agree(got.jacobian[k], expected[k]))
            << ir::info(op).name << "(" << at.parameters[0] << ", " << at.parameters[1] << ", "
            << at.parameters[2] << ") by " << k << ": " << got.jacobian[k] << " " << expected[k];
    }
  }
}

TEST(NodeSweep, AgreesWithProgramsOfDerivatives) {
  struct Shape {
    std::uint32_t parameters;
    std::size_t outputs;
  };
  NodeSweep::Workspace work;
  int finite = 0;
  // Forward sweeps of four and of eight columns, and reverse ones.
  for (const Shape& shape : {Shape{3, 8}, Shape{13, 20}, Shape{40, 2}}) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      ir::RandomProgramOptions options{.operations = 60, .ops = ir::smooth_ops()};
      options.leaves = {.parameters = shape.parameters, .data = 2, .uniforms = 1};
      options.outputs = shape.outputs;
      const ir::Point at = ir::random_point(seed, options.leaves);
      options.ordinary_at = &at;
      const ir::Program f = ir::random_program(seed, options);
      const ir::Program J = autodiff::jacobian(f, autodiff::all_slots(f));
      const Numbers expected = ir::evaluate<double>(J, at.inputs());
      const Linearization got = swept(f, at.inputs(), work);
      for (std::size_t k = 0; k < expected.size(); ++k) {
        if (!std::isfinite(expected[k])) continue;
        ++finite;
        EXPECT_NEAR(got.jacobian[k], expected[k], 1e-9 * (1 + std::fabs(expected[k])))
            << "seed " << seed << " entry " << k;
      }
    }
  }
  EXPECT_GT(finite, 10000);
}

// The root of a square sum has derivative 0 at 0, a plain root is infinite there; a zero tangent
// times that is 0.
TEST(NodeSweep, KeepsTheZeroRule) {
  ir::Graph graph;
  const ir::Id x = graph.leaf(Op::Parameter, 0), y = graph.leaf(Op::Parameter, 1);
  const ir::Id length =
      graph.add(Op::Sqrt, graph.add(Op::Add, graph.add(Op::Mul, x, x), graph.add(Op::Square, y)));
  const ir::Id root = graph.add(Op::Sqrt, x);
  const ir::Id taken = graph.add(Op::Select, graph.add(Op::Gt, x, y), root, y);
  const ir::Program f = graph.extract(std::array{length, root, taken}, {.parameters = 2});
  const Numbers zero = {0, 0};
  NodeSweep::Workspace work;
  const Linearization got = swept(f, {.parameters = zero}, work);
  const double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(got.jacobian, (Numbers{0, 0, kInfinity, 0, 0, 1}));
}

// x_{k+1} = x_k - h p x_k has x_n = x_0 (1 - h p)^n. The tangents of one step at a time are live.
TEST(NodeSweep, ReusesTheMemoryOfLongChains) {
  constexpr int kSteps = 20'000;
  constexpr double kStep = 1e-4;
  ir::Graph graph;
  const ir::Id p = graph.leaf(Op::Parameter, 0), h = graph.leaf(Op::Data, 0);
  ir::Id x = graph.leaf(Op::Parameter, 1);
  for (int k = 0; k < kSteps; ++k)
    x = graph.add(Op::Sub, x, graph.add(Op::Mul, graph.add(Op::Mul, h, p), x));
  const ir::Program f = graph.extract(std::array{x, p}, {.parameters = 2, .data = 1});
  const Numbers at = {0.7, 3}, data = {kStep};
  NodeSweep::Workspace work;
  const Linearization got = swept(f, {.parameters = at, .data = data}, work);
  const double factor = std::pow(1 - kStep * at[0], kSteps);
  EXPECT_NEAR(got.rows[0], at[1] * factor, 1e-10);
  EXPECT_NEAR(got.jacobian[0], -at[1] * kSteps * kStep * factor / (1 - kStep * at[0]), 1e-9);
  EXPECT_NEAR(got.jacobian[1], factor, 1e-12);
  EXPECT_EQ(got.jacobian[2], 1);
  EXPECT_EQ(got.jacobian[3], 0);
  EXPECT_LE(work.tangents.size(), 64U);
}

}  // namespace
}  // namespace topograd::test
