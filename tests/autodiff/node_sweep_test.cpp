// Sweeps with numbers against programs of derivatives, and against closed forms.
#include "../../autodiff/rolled_sweep.hpp"

#include <gtest/gtest.h>
#include "../../autodiff/derivatives.hpp"
#include "../../ir/program.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

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

// Roots of what is never negative have derivative 0 at 0, also where its own is not 0: max(x, y²)
// has ½ of each at a tie. Two roots are computed in one run.
TEST(NodeSweep, KeepsTheRuleOfEachRoot) {
  ir::Graph graph;
  const auto root = [&](std::uint32_t k) {
    const ir::Id x = graph.leaf(Op::Parameter, k), y = graph.leaf(Op::Parameter, k + 1);
    return graph.add(Op::Sqrt, graph.add(Op::Max, x, graph.add(Op::Square, y)));
  };
  const ir::Program f = graph.extract(std::array{root(0), root(2)}, {.parameters = 4});
  const Numbers zero(4, 0.0);
  NodeSweep::Workspace work;
  EXPECT_EQ(swept(f, {.parameters = zero}, work).jacobian, Numbers(8, 0.0));
}

// Products of numbers have no part in derivatives: d (a² b x)² by x is 2 (a² b)² x.
TEST(NodeSweep, PassesByWhatDependsOnNoParameter) {
  ir::Graph graph;
  const ir::Id x = graph.leaf(Op::Parameter, 0), y = graph.leaf(Op::Parameter, 1),
               a = graph.leaf(Op::Data, 0), b = graph.leaf(Op::Data, 1);
  const ir::Id factor = graph.add(Op::Mul, graph.add(Op::Square, a), b);
  const ir::Id square = graph.add(Op::Square, graph.add(Op::Mul, factor, x));
  const ir::Id tail = graph.add(Op::Div, graph.add(Op::Exp, y), graph.add(Op::Exp, factor));
  const ir::Program f =
      graph.extract(std::array{square, tail, factor}, {.parameters = 2, .data = 2});
  const Numbers at = {1.5, 0.25}, data = {2, 0.125};
  NodeSweep::Workspace work;
  const Linearization got = swept(f, {.parameters = at, .data = data}, work);
  const double slope = std::exp(at[1] - 0.5);
  const Numbers expected = {2 * 0.25 * 1.5, 0, 0, slope, 0, 0};
  for (std::size_t k = 0; k < expected.size(); ++k)
    EXPECT_NEAR(got.jacobian[k], expected[k], 1e-15) << k;
}

/// The op of the first parameters, one after the other.
ir::Id chain(ir::Graph& graph, Op op, std::uint32_t parameters) {
  ir::Id all = graph.leaf(Op::Parameter, 0);
  for (std::uint32_t k = 1; k < parameters; ++k)
    all = graph.add(op, all, graph.leaf(Op::Parameter, k));
  return all;
}

// Few rows of many parameters go backward; memory of the last sweep is used again. Rows that are
// parameters or numbers have no ops of their own.
TEST(NodeSweep, GoesBackwardFromRowsThatAreLeaves) {
  constexpr std::uint32_t kParameters = 40;
  ir::Graph graph;
  const ir::Id product = chain(graph, Op::Mul, kParameters);
  const ir::Id number = graph.add(Op::Square, graph.leaf(Op::Data, 0));
  const ir::Program f = graph.extract(std::array{product, graph.leaf(Op::Parameter, 1), number},
                                      {.parameters = kParameters, .data = 1});
  Numbers at(kParameters, 1), data = {3}, expected(std::size_t{3} * kParameters, 0);
  at[7] = 0.5;
  for (std::uint32_t k = 0; k < kParameters; ++k) expected[k] = k == 7 ? 1 : 0.5;
  expected[kParameters + 1] = 1;
  NodeSweep::Workspace work;
  for (int turn = 0; turn < 2; ++turn)
    EXPECT_EQ(swept(f, {.parameters = at, .data = data}, work).jacobian, expected) << turn;
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

// Memory is told with all of its parts: five numbers for each op beside its node, and three for
// each operand that depends on parameters.
TEST(NodeSweep, TellsItsMemory) {
  std::size_t before = 0;
  for (const std::size_t steps : {1000, 2000, 4000}) {
    ir::Graph graph;
    ir::Id x = graph.leaf(Op::Parameter, 0);
    for (std::size_t k = 0; k < steps; ++k) x = graph.add(Op::Sin, x);
    const NodeSweep sweep(graph.extract(std::array{x}, {.parameters = 1}));
    EXPECT_GE(sweep.bytes(), steps * (sizeof(ir::Node) + 8 * sizeof(std::uint32_t)));
    EXPECT_GT(sweep.bytes(), before + before / 2);
    before = sweep.bytes();
  }
}

// A parameter of a sum has one number in the list of parameters, and two of its node.
TEST(NodeSweep, TellsTheMemoryOfParameters) {
  constexpr std::uint32_t kCount = 4096;
  ir::Graph graph;
  const ir::Id sum = chain(graph, Op::Add, kCount);
  const ir::Program program = graph.extract(std::array{sum}, {.parameters = kCount});
  const std::size_t nodes = program.nodes.size() * sizeof(ir::Node);
  const std::size_t words = 3 * kCount + 5 * (kCount - 1) + 2 * 3 * (kCount - 1);
  EXPECT_GE(NodeSweep(program).bytes(), nodes + words * sizeof(std::uint32_t));
}

/// Expressions of parameters p and numbers d, which are all different.
struct Sketch {
  ir::Graph graph;
  std::uint32_t numbers = 0;
  ir::Id p(std::uint32_t k) { return graph.leaf(Op::Parameter, k); }
  ir::Id d() { return graph.leaf(Op::Data, numbers++); }
  ir::Id add(ir::Id a, ir::Id b) { return graph.add(Op::Add, a, b); }
  ir::Id sub(ir::Id a, ir::Id b) { return graph.add(Op::Sub, a, b); }
  ir::Id mul(ir::Id a, ir::Id b) { return graph.add(Op::Mul, a, b); }
  ir::Program program(const std::vector<ir::Id>& rows, std::uint32_t parameters) {
    return graph.extract(rows, {.parameters = parameters, .data = numbers});
  }
};

/// y += d (p0 - p1 y + p2 y²), and y - d at each step.
ir::Program logistic(int steps, bool rows_at_end) {
  Sketch s;
  ir::Id y = s.d();
  std::vector<ir::Id> states, rows;
  for (int k = 0; k < steps; ++k) {
    states.push_back(y);
    if (!rows_at_end) rows.push_back(s.sub(y, s.d()));
    const ir::Id rate = s.add(s.p(0), s.mul(y, s.sub(s.mul(s.p(2), y), s.p(1))));
    y = s.add(y, s.mul(s.d(), rate));
  }
  for (const ir::Id state : states)
    if (rows_at_end) rows.push_back(s.sub(state, s.d()));
  return s.program(rows, 3);
}

/// Explicit steps of the heat equation on 20 cells.
ir::Program heat() {
  Sketch s;
  std::vector<ir::Id> u, rows;
  for (std::uint32_t i = 0; i < 20; ++i) u.push_back(s.mul(s.p(i % 3), s.d()));
  for (int k = 0; k < 60; ++k) {
    std::vector<ir::Id> next = u;
    for (std::size_t i = 1; i + 1 < u.size(); ++i)
      next[i] = s.add(u[i], s.mul(s.p(3), s.add(s.sub(u[i - 1], s.add(u[i], u[i])), u[i + 1])));
    u = next;
    rows.push_back(s.graph.add(Op::Sqrt, s.mul(u[10], u[10])));
  }
  return s.program(rows, 4);
}

/// A reading of the state twelve steps ago, and two loops one after the other.
ir::Program delay() {
  Sketch s;
  std::vector<ir::Id> y, rows;
  for (int i = 0; i < 12; ++i) y.push_back(s.d());
  for (int k = 0; k < 300; ++k) {
    y.push_back(s.add(s.mul(s.p(0), s.sub(s.d(), y[y.size() - 12])), s.mul(s.p(1), y.back())));
    rows.push_back(y.back());
  }
  ir::Id z = y.back();
  for (int k = 0; k < 200; ++k) {
    z = s.sub(z, s.mul(s.d(), s.graph.add(Op::Tanh, s.mul(s.p(1), z))));
    rows.push_back(z);
  }
  return s.program(rows, 2);
}

/// A sum of 700 terms as a tree, five times with other numbers.
ir::Program trees() {
  Sketch s;
  std::vector<ir::Id> rows;
  for (int row = 0; row < 5; ++row) {
    std::vector<ir::Id> terms;
    for (int i = 0; i < 700; ++i) {
      const ir::Id e = s.sub(s.mul(s.p(0), s.graph.add(Op::Exp, s.mul(s.p(1), s.d()))), s.d());
      terms.push_back(s.mul(e, e));
    }
    while (terms.size() > 1) {
      std::vector<ir::Id> level;
      for (std::size_t i = 0; i + 1 < terms.size(); i += 2)
        level.push_back(s.add(terms[i], terms[i + 1]));
      if (terms.size() % 2 == 1) level.push_back(terms.back());
      terms = level;
    }
    rows.push_back(terms[0]);
  }
  return s.program(rows, 2);
}

void expect_same_bits(const ir::Program& f, const autodiff::RolledSweep& rolled, double shift) {
  Numbers x, d;
  for (std::uint32_t k = 0; k < f.leaves.parameters; ++k) x.push_back(shift + 0.05 * k);
  for (std::uint32_t k = 0; k < f.leaves.data; ++k) d.push_back(0.02 + 0.01 * std::sin(k));
  const ir::Inputs<double> in{x, d, {}, {}, {}};
  NodeSweep::Workspace work, own;
  const Linearization expected = swept(f, in, work);
  const std::size_t m = rolled.rows(), n = x.size();
  Numbers rows(m), jacobian(m * n, NAN), again(m);
  std::vector<NodeSweep::Column> columns;
  for (std::size_t k = 0; k < n; ++k) columns.push_back({jacobian.data() + k, n});
  rolled.linearize(in, rows, columns, own);
  rolled.evaluate(in, again, own);
  ASSERT_EQ(m, expected.rows.size());
  for (std::size_t k = 0; k < m; ++k) {
    EXPECT_TRUE(ir::same_bits(rows[k], expected.rows[k])) << k;
    EXPECT_TRUE(ir::same_bits(again[k], expected.rows[k])) << k;
  }
  for (std::size_t k = 0; k < m * n; ++k)
    ASSERT_TRUE(ir::same_bits(jacobian[k], expected.jacobian[k]))
        << k << ": " << jacobian[k] << " for " << expected.jacobian[k];
}

TEST(RolledSweep, HasTheBitsOfTheUnrolledProgram) {
  struct Case {
    const char* name;
    ir::Program program;
    std::size_t steps, states;
  };
  const std::vector<Case> cases = {{"rows in the loop", logistic(500, false), 498, 1},
                                   {"rows after it", logistic(500, true), 497, 1},
                                   {"heat", heat(), 30, 18},
                                   {"delay", delay(), 280, 1},
                                   {"trees", trees(), 3, 0}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const std::optional<autodiff::RolledSweep> rolled = autodiff::RolledSweep::make(one.program);
    ASSERT_TRUE(rolled.has_value());
    EXPECT_GE(rolled->facts().steps, one.steps);
    EXPECT_GE(rolled->facts().states, one.states);
    for (const double shift : {0.1, 0.0, 40.0}) expect_same_bits(one.program, *rolled, shift);
  }
}

/// Derivatives of each row, summed by the nodes that read a number, from the last one on.
Numbers by_nodes(const ir::Program& f, const ir::Inputs<double>& in) {
  const std::size_t size = f.nodes.size(), n = f.leaves.parameters;
  Numbers v(size), out(f.outputs.size() * n, 0.0);
  std::vector<std::array<double, 3>> d(size);
  for (ir::Id id = 0; id < size; ++id) {
    const ir::Node& node = f.nodes[id];
    if (ir::is_leaf(node.op)) {
      v[id] = node.op == Op::Literal ? node.literal() : (*ir::leaf_space(node.op, in))[node.slot()];
    } else {
      const std::array<ir::Id, 3>& from = node.args;
      v[id] = autodiff::OpNumbers<true>::any(node.op, v[from[0]], v[from[1]], v[from[2]], true,
                                             d[id].data());
    }
  }
  for (std::size_t row = 0; row < f.outputs.size(); ++row) {
    Numbers adjoints(size, 0.0);
    adjoints[f.outputs[row]] = 1;
    for (std::size_t id = size; id-- > 0;) {
      const ir::Node& node = f.nodes[id];
      if (node.op == Op::Parameter) out[row * n + node.slot()] += adjoints[id];
      for (std::size_t k = 0; k < node.operands().size(); ++k)
        adjoints[node.args[k]] += autodiff::zero_rule(d[id][k], adjoints[id]);
    }
  }
  return out;
}

std::vector<NodeSweep::Column> columns_of(Numbers& jacobian, std::size_t n) {
  std::vector<NodeSweep::Column> out;
  for (std::size_t k = 0; k < n; ++k) out.push_back({jacobian.data() + k, n});
  return out;
}

TEST(RolledSweep, GoesBackwardWithTheBitsOfTheUnrolledProgram) {
  for (const ir::Program& f : {logistic(60, false), logistic(60, true), heat(), delay(), trees()}) {
    const std::optional<autodiff::RolledSweep> rolled = autodiff::RolledSweep::make(f);
    const std::optional<autodiff::CurvatureSweep> unrolled = autodiff::CurvatureSweep::make(f);
    ASSERT_TRUE(rolled.has_value());
    ASSERT_EQ(rolled->has_curvature(), unrolled.has_value());
    NodeSweep::Workspace work;
    for (const double shift : {0.1, 0.0, 40.0}) {
      Numbers x, d, p, weights;
      for (std::uint32_t k = 0; k < f.leaves.parameters; ++k) x.push_back(shift + 0.05 * k);
      for (std::uint32_t k = 0; k < f.leaves.data; ++k) d.push_back(0.02 + 0.01 * std::sin(k));
      const ir::Inputs<double> in{x, d, {}, {}, {}};
      const std::size_t n = x.size(), m = rolled->rows();
      const Numbers expected = by_nodes(f, in);
      Numbers rows(m), forward(m * n), backward(m * n, NAN), again(m);
      rolled->linearize(in, rows, columns_of(forward, n), work);
      rolled->linearize_backward(in, again, columns_of(backward, n), work);
      for (std::size_t k = 0; k < m; ++k) EXPECT_TRUE(ir::same_bits(rows[k], again[k])) << k;
      for (std::size_t k = 0; k < m * n; ++k) {
        ASSERT_TRUE(ir::same_bits(backward[k], expected[k]))
            << k << ": " << backward[k] << " for " << expected[k];
        EXPECT_TRUE(shift > 1 || agree(forward[k], backward[k])) << k;
      }
      if (!unrolled) continue;
      for (std::size_t k = 0; k < n; ++k) p.push_back(0.3 - 0.2 * static_cast<double>(k));
      for (std::size_t k = 0; k < m; ++k) weights.push_back(std::cos(static_cast<double>(k)));
      Numbers products(n, 0.5), of_nodes(n, 0.5);
      rolled->add_curvature(in, weights, p, products, work);
      unrolled->add(in, weights, p, of_nodes);
      for (std::size_t k = 0; k < n; ++k)
        EXPECT_TRUE(ir::same_bits(products[k], of_nodes[k]))
            << k << ": " << products[k] << " for " << of_nodes[k];
    }
  }
}

// The second derivatives of 0.1 exp(x) y are 0.1 exp(x) ((y, 1), (1, 0)).
TEST(CurvatureSweep, OfALiteralAndOpsOfOneAndTwoOperands) {
  ir::Graph graph;
  const ir::Id x = graph.leaf(Op::Parameter, 0), y = graph.leaf(Op::Parameter, 1);
  const ir::Id scaled = graph.add(Op::Mul, graph.literal(0.1), graph.add(Op::Exp, x));
  const ir::Program f = graph.extract(std::array{graph.add(Op::Mul, scaled, y)}, {.parameters = 2});
  const std::optional<autodiff::CurvatureSweep> sweep = autodiff::CurvatureSweep::make(f);
  ASSERT_TRUE(sweep.has_value());
  const Numbers at = {0.7, -1.3}, weights = {2}, p = {0.4, 3};
  Numbers product = {1, 1};
  sweep->add({.parameters = at}, weights, p, product);
  const double scale = 2 * 0.1 * std::exp(at[0]);
  EXPECT_NEAR(product[0], 1 + scale * (at[1] * p[0] + p[1]), 1e-14);
  EXPECT_NEAR(product[1], 1 + scale * p[0], 1e-14);
}

// Ops of one operand after one of two. The second derivatives of exp(x y)² are
// exp(2 x y) ((4 y², 2 + 4 x y), (2 + 4 x y, 4 x²)).
TEST(CurvatureSweep, OfOpsOfOneOperandAfterOneOfTwo) {
  ir::Graph graph;
  const ir::Id x = graph.leaf(Op::Parameter, 0), y = graph.leaf(Op::Parameter, 1);
  const ir::Id root = graph.add(Op::Exp, graph.add(Op::Mul, x, y));
  const ir::Program f = graph.extract(std::array{graph.add(Op::Square, root)}, {.parameters = 2});
  const std::optional<autodiff::CurvatureSweep> sweep = autodiff::CurvatureSweep::make(f);
  ASSERT_TRUE(sweep.has_value());
  const Numbers at = {0.7, -1.3}, weights = {1}, p = {0.4, 3};
  Numbers product = {0, 0};
  sweep->add({.parameters = at}, weights, p, product);
  const double xy = at[0] * at[1], scale = std::exp(2 * xy);
  EXPECT_NEAR(product[0], scale * (4 * at[1] * at[1] * p[0] + (2 + 4 * xy) * p[1]), 1e-14);
  EXPECT_NEAR(product[1], scale * ((2 + 4 * xy) * p[0] + 4 * at[0] * at[0] * p[1]), 1e-14);
}

// The numbers that a sweep backward keeps are those of the states, not of all operations.
TEST(RolledSweep, GoesBackwardFromTheStatesOfAllSteps) {
  constexpr std::size_t kSteps = 20'000;
  Sketch s;
  ir::Id y = s.d();
  for (std::size_t k = 0; k < kSteps; ++k) {
    const ir::Id rate = s.add(s.p(0), s.mul(y, s.sub(s.mul(s.p(2), y), s.p(1))));
    y = s.add(y, s.mul(s.d(), rate));
  }
  const ir::Program f = s.program({y}, 3);
  const std::optional<autodiff::RolledSweep> rolled = autodiff::RolledSweep::make(f);
  ASSERT_TRUE(rolled.has_value());
  const Numbers x = {0.3, 0.2, -0.1}, d(kSteps + 1, 1e-4), p = {1, 2, 3}, weights = {1};
  const ir::Inputs<double> in{x, d, {}, {}, {}};
  NodeSweep::Workspace work;
  Numbers row(1), slope(3, NAN), product(3, 0.0);
  rolled->linearize_backward(in, row, columns_of(slope, 3), work);
  const auto bytes = [&] {
    return (work.values.size() + work.partials.size() + work.tangents.size() +
            work.adjoints.size()) *
           sizeof(double);
  };
  EXPECT_EQ(bytes(), rolled->backward_bytes());
  EXPECT_LT(bytes(), kSteps * 17);
  rolled->add_curvature(in, weights, p, product, work);
  EXPECT_LT(bytes(), kSteps * 33);
  const NodeSweep sweep(f);
  Numbers expected(3, NAN);
  sweep.linearize(in, row, columns_of(expected, 3), work);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(slope[k], expected[k], 1e-12 * expected[0]);
  EXPECT_GT(sweep.bytes() + bytes(), 20 * (rolled->bytes() + rolled->backward_bytes()));
}

TEST(RolledSweep, KeepsOneStepOfMany) {
  const ir::Program f = logistic(20000, true);
  const std::optional<autodiff::RolledSweep> rolled = autodiff::RolledSweep::make(f);
  ASSERT_TRUE(rolled.has_value());
  // Rows and the few nodes of a step: NodeSweep keeps 75 bytes for each of 180,000 nodes.
  EXPECT_LT(rolled->bytes(), std::size_t{20000} * 24);
}

TEST(RolledSweep, LeavesWhatDoesNotRepeat) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Sketch s;
    std::vector<ir::Id> values = {s.p(0), s.p(1), s.d()};
    std::uint64_t state = seed * 977 + 1;
    for (int k = 0; k < 600; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const ir::Id a = values[(state >> 33) % values.size()],
                   b = values[(state >> 20) % values.size()];
      values.push_back(s.graph.add((state >> 50) % 2 == 0 ? Op::Add : Op::Sub, a, b));
    }
    const ir::Program f = s.program({values.back(), values[values.size() - 2]}, 2);
    EXPECT_FALSE(autodiff::RolledSweep::make(f).has_value()) << seed;
  }
}

}  // namespace
}  // namespace topograd::test
