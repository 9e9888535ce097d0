// Derivative programs compared with each other: every kind follows from J, and J does not depend on
// the mode.
#include <gtest/gtest.h>
#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "../../ir/verify.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "../support/linear_time.hpp"
#include "../support/random_program.hpp"

namespace topograd::test {
namespace {

using Numbers = std::vector<double>;

// J and the derivatives computed from it by plain loops.
struct Reference {
  Numbers r, J;
  std::size_t rows, columns;

  double at(std::size_t row, std::size_t column) const { return J[row * columns + column]; }
  Numbers transposed_times(const Numbers& v) const {
    Numbers out(columns);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < columns; ++k) out[k] += at(i, k) * v[i];
    }
    return out;
  }
  Numbers times(const Numbers& p) const {
    Numbers out(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < columns; ++k) out[i] += at(i, k) * p[k];
    }
    return out;
  }
  Numbers block() const {
    Numbers out;
    for (std::size_t a = 0; a < columns; ++a) {
      for (std::size_t b = a; b < columns; ++b) {
        double sum = 0;
        for (std::size_t i = 0; i < rows; ++i) sum += at(i, a) * at(i, b);
        out.push_back(sum);
      }
    }
    return out;
  }
};

bool tame(const Numbers& values) {
  return std::ranges::all_of(values, [](double v) { return std::fabs(v) < 1e4; });
}

void expect_near(const Numbers& got, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double scale = 1;
  for (double v : expected) scale = std::max(scale, std::fabs(v));
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_NEAR(got[k], expected[k], 1e-9 * scale) << what << ", output " << k;
  }
}

// Checks every kind of program at one point; false if values are too large to compare.
bool compare(const ir::Program& f, const Point& point) {
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
  const ir::Inputs<double> in = point.inputs();
  const auto run = [&](const ir::Program& program) { return ir::evaluate(program, in); };
  Reference reference{run(f), run(autodiff::jacobian(f, slots)), f.outputs.size(), slots.size()};
  if (!tame(reference.r) || !tame(reference.J)) return false;

  Numbers both = reference.r;
  both.insert(both.end(), reference.J.begin(), reference.J.end());
  expect_near(run(autodiff::residual_and_jacobian(f, slots)), both, "residual_and_jacobian");
  double cost = 0;
  for (double r : reference.r) cost += 0.5 * r * r;
  expect_near(run(autodiff::cost(f)), {cost}, "cost");
  expect_near(run(autodiff::gradient(f, slots)), reference.transposed_times(reference.r),
              "gradient");
  Numbers values = reference.transposed_times(reference.r);
  values.push_back(cost);
  expect_near(run(autodiff::gradient_and_cost(f, slots, false)), values, "gradient and cost");
  values.insert(values.end(), reference.r.begin(), reference.r.end());
  expect_near(run(autodiff::gradient_and_cost(f, slots, true)), values, "gradient, cost, rows");
  expect_near(run(autodiff::vjp(f, slots)), reference.transposed_times(point.seeds), "vjp");
  const Numbers Jp = reference.times(point.tangents);
  expect_near(run(autodiff::jvp(f)), Jp, "jvp");
  expect_near(run(autodiff::jtjp(f, slots)), reference.transposed_times(Jp), "jtjp");
  std::vector<std::uint32_t> moving;
  Numbers held = point.tangents;
  for (std::uint32_t k = 1; k < slots.size(); k += 2) moving.push_back(k);
  for (std::uint32_t k = 0; k < slots.size(); k += 2) held[k] = 0;
  expect_near(run(autodiff::jtjp(f, slots, moving)),
              reference.transposed_times(reference.times(held)), "jtjp of some tangents");
  expect_near(run(autodiff::block(f, slots)), reference.block(), "block");
  return true;
}

Point point_for(const ir::Program& f, std::uint64_t seed) {
  ir::LeafCounts leaves = f.leaves;
  leaves.seeds = static_cast<std::uint32_t>(f.outputs.size());
  return random_point(seed, leaves);
}

TEST(DerivativePrograms, AgreeOnRandomPrograms) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const ir::Program f =
        random_program(seed, {.operations = 12, .ops = smooth_ops(), .outputs = 1 + seed % 4});
    if (compare(f, point_for(f, seed))) ++compared;
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << "\n" << ir::print(f);
  }
  EXPECT_GE(compared, 50);
}

TEST(DerivativePrograms, AgreeOnRandomProgramsOfAllOps) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const ir::Program f = random_program(seed, {.operations = 12, .outputs = 1 + seed % 3});
    if (compare(f, point_for(f, seed))) ++compared;
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << "\n" << ir::print(f);
  }
  EXPECT_GE(compared, 50);
}

ir::Program spring() {
  return ir::parse(R"(program parameters=6 data=1 uniforms=0 seeds=0 {
    %0 = parameter 0
    %1 = parameter 3
    %2 = sub %0, %1
    %3 = square %2
    %4 = parameter 1
    %5 = parameter 4
    %6 = sub %4, %5
    %7 = square %6
    %8 = add %3, %7
    %9 = parameter 2
    %10 = parameter 5
    %11 = sub %9, %10
    %12 = square %11
    %13 = add %8, %12
    %14 = sqrt %13
    %15 = data 0
    %16 = sub %14, %15
    return %16
  })");
}

TEST(DerivativePrograms, TheOnlySelectOfASpringIsThatOfItsLength) {
  const ir::Program f = spring();
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
  for (const ir::Program& p : {autodiff::jacobian(f, slots), autodiff::gradient(f, slots)}) {
    EXPECT_EQ(std::ranges::count(p.nodes, ir::Op::Select, &ir::Node::op), 1) << ir::print(p);
    EXPECT_EQ(std::ranges::count(p.nodes, ir::Op::Zmul, &ir::Node::op), 0) << ir::print(p);
  }
  // 10 for the residual; 1 / (2 n) or 0, doubled, 3 products, 3 negations
  EXPECT_LE(ir::operation_count(autodiff::residual_and_jacobian(f, slots)), 20U);
}

TEST(DerivativePrograms, DifferentiateOnlyWhatIsAskedFor) {
  const ir::Program f = spring();
  const std::vector<std::uint32_t> all = autodiff::all_slots(f), some = {5, 1};
  const Point point = point_for(f, 1);
  const auto J = ir::evaluate(autodiff::jacobian(f, all), point.inputs());
  expect_near(ir::evaluate(autodiff::jacobian(f, some), point.inputs()), {J[5], J[1]}, "jacobian");
  const auto g = ir::evaluate(autodiff::gradient(f, all), point.inputs());
  expect_near(ir::evaluate(autodiff::gradient(f, some), point.inputs()), {g[5], g[1]}, "gradient");
}

TEST(DerivativePrograms, WriteStructuralZerosAsTheLiteral) {
  const ir::Program f = ir::parse(R"(program parameters=2 data=0 uniforms=0 seeds=0 {
    %0 = parameter 0
    %1 = parameter 1
    %2 = exp %0
    %3 = sin %1
    return %2, %3
  })");
  const ir::Program J = autodiff::jacobian(f, autodiff::all_slots(f));
  for (const std::size_t k : {1U, 2U}) {
    EXPECT_EQ(J.nodes[J.outputs[k]], ir::make_literal(0)) << ir::print(J);
  }
}

TEST(DerivativePrograms, KeepGuards) {
  const ir::Program f = ir::parse(R"(program parameters=2 data=0 uniforms=0 seeds=0 {
    %0 = parameter 0
    %1 = parameter 1
    %2 = lt %0, %1
    %3 = mul %0, %1
    guard %2 true
    return %3
  })");
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
  for (const ir::Program& p :
       {autodiff::cost(f), autodiff::gradient(f, slots), autodiff::jacobian(f, slots),
        autodiff::jvp(f), autodiff::vjp(f, slots), autodiff::jtjp(f, slots),
        autodiff::block(f, slots)}) {
    ASSERT_EQ(p.guards.size(), 1U) << ir::print(p);
    EXPECT_TRUE(p.guards[0].expected);
    EXPECT_EQ(p.nodes[p.guards[0].condition].op, ir::Op::Lt);
    EXPECT_EQ(ir::violation(p), std::nullopt);
  }
}

TEST(DerivativePrograms, ChainOfAMillionNodes) {
  constexpr int kLength = 1'000'000;
  ir::Graph graph;
  ir::Id y = graph.leaf(ir::Op::Parameter, 0);
  for (int k = 0; k < kLength; ++k) y = graph.add(ir::Op::Sin, y);
  const ir::Program f = graph.extract(std::array{y}, {.parameters = 1});
  const ir::Program g = autodiff::gradient(f, autodiff::all_slots(f));
  double value = 0.5, derivative = 1;
  for (int k = 0; k < kLength; ++k) {
    derivative *= std::cos(value);
    value = std::sin(value);
  }
  const Numbers at = {0.5};
  EXPECT_NEAR(ir::evaluate<double>(g, {.parameters = at})[0], value * derivative,
              1e-8 * std::fabs(value * derivative));
}

TEST(DerivativePrograms, TimeIsLinearInTheLengthOfAChain) {
  for (const bool data : {false, true}) {
    expect_linear_time([&](int length) {
      ir::Graph graph;
      ir::Id y = graph.leaf(ir::Op::Parameter, 0);
      for (int k = 0; k < length; ++k) {
        const auto link = static_cast<std::uint32_t>(k);
        y = data ? graph.add(k % 2 == 0 ? ir::Op::Mul : ir::Op::Add, y,
                             graph.leaf(ir::Op::Data, link))
                 : graph.add(k % 2 == 0 ? ir::Op::Neg : ir::Op::Sin, y);
      }
      const auto leaves = data ? static_cast<std::uint32_t>(length) : 0;
      const ir::Program f = graph.extract(std::array{y}, {.parameters = 1, .data = leaves});
      EXPECT_EQ(autodiff::gradient(f, autodiff::all_slots(f)).outputs.size(), 1U);
    });
  }
}

TEST(DerivativePrograms, NameASlotThatIsNotThere) {
  const std::vector<std::uint32_t> slots = {0, 6};
  try {
    autodiff::gradient(spring(), slots);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(error.what(), "differentiate: expected parameter slots below 6, got 6");
  }
}

}  // namespace
}  // namespace topograd::test
