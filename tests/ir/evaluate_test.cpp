// Special values of the ops: NaN, infinities, signed zeros, ties, bad edges.
#include "../support/random_program.hpp"

#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace topograd::test {
namespace {

using ir::Op;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Special {
  Op op;
  double a, b, c, value;
};

constexpr Special kSpecials[] = {
    // Half to even, signs kept.
    {Op::Round, 0.5, 0, 0, 0},
    {Op::Round, 1.5, 0, 0, 2},
    {Op::Round, 2.5, 0, 0, 2},
    {Op::Round, -0.5, 0, 0, -0.0},
    {Op::Round, -1.5, 0, 0, -2},
    {Op::Round, -2.5, 0, 0, -2},
    {Op::Round, 0.49999999999999994, 0, 0, 0},
    {Op::Round, -0.49999999999999994, 0, 0, -0.0},
    {Op::Round, -0.0, 0, 0, -0.0},
    {Op::Round, -1e-300, 0, 0, -0.0},
    {Op::Round, 0.6, 0, 0, 1},
    {Op::Round, 4503599627370497.5, 0, 0, 4503599627370498},
    {Op::Round, 0x1p52 + 1, 0, 0, 0x1p52 + 1},
    {Op::Round, 0x1p53 + 2, 0, 0, 0x1p53 + 2},
    {Op::Round, 1e300, 0, 0, 1e300},
    {Op::Round, kInf, 0, 0, kInf},
    {Op::Round, kNan, 0, 0, kNan},
    {Op::Floor, -0.0, 0, 0, -0.0},
    {Op::Ceil, -0.5, 0, 0, -0.0},
    {Op::Trunc, -0.5, 0, 0, -0.0},
    {Op::Floor, -0.5, 0, 0, -1},
    {Op::Trunc, -1.5, 0, 0, -1},
    // The sign of the divisor; exact for quotients of any size.
    {Op::Mod, 5, 3, 0, 2},
    {Op::Mod, -5, 3, 0, 1},
    {Op::Mod, 5, -3, 0, -1},
    {Op::Mod, -5, -3, 0, -2},
    {Op::Mod, 6, 3, 0, 0},
    {Op::Mod, -6, 3, 0, 0},
    {Op::Mod, 6, -3, 0, -0.0},
    {Op::Mod, -0.0, 3, 0, 0},
    {Op::Mod, 1e300, 7, 0, 1},
    {Op::Mod, 1, kInf, 0, 1},
    {Op::Mod, -1, kInf, 0, kInf},
    {Op::Mod, 1, 0, 0, kNan},
    {Op::Mod, kInf, 3, 0, kNan},
    {Op::Mod, 1, kNan, 0, kNan},
    {Op::Mod, 0.3, 0.1, 0, 0.09999999999999998},
    {Op::Mod, -1e-20, 1, 0, 1},
    // NaN propagates; -0 is before +0.
    {Op::Min, kNan, 1, 0, kNan},
    {Op::Min, 1, kNan, 0, kNan},
    {Op::Max, kNan, 1, 0, kNan},
    {Op::Max, 1, kNan, 0, kNan},
    {Op::Min, -0.0, 0, 0, -0.0},
    {Op::Min, 0, -0.0, 0, -0.0},
    {Op::Max, -0.0, 0, 0, 0},
    {Op::Max, 0, -0.0, 0, 0},
    {Op::Min, -kInf, 1, 0, -kInf},
    {Op::Max, kNan, kInf, 0, kNan},
    // Zero and NaN as truth values.
    {Op::Select, kNan, 1, 2, 1},
    {Op::Select, -0.0, 1, 2, 2},
    {Op::Select, 1, 1, kNan, 1},
    {Op::And, kNan, 1, 0, 1},
    {Op::Or, 0, -0.0, 0, 0},
    {Op::Not, kNan, 0, 0, 0},
    {Op::Not, -0.0, 0, 0, 1},
    {Op::Eq, kNan, kNan, 0, 0},
    {Op::Ne, kNan, kNan, 0, 1},
    {Op::Le, kNan, 1, 0, 0},
    {Op::Ge, 1, kNan, 0, 0},
    {Op::Lt, -0.0, 0, 0, 0},
    {Op::Eq, -0.0, 0, 0, 1},
    // Zero times anything.
    {Op::Zmul, 0, kInf, 0, 0},
    {Op::Zmul, -0.0, kNan, 0, 0},
    {Op::Zmul, 2, kInf, 0, kInf},
    {Op::Zmul, kInf, 0, 0, kNan},
    {Op::Zmul, kNan, 0, 0, kNan},
    {Op::Zmul, -2, 3, 0, -6},
    // Powers.
    {Op::Pow, -8, 1.0 / 3, 0, kNan},
    {Op::Pow, -2, 3, 0, -8},
    {Op::Pow, 0, 0, 0, 1},
    {Op::Pow, kNan, 0, 0, 1},
    {Op::Pow, 1, kNan, 0, 1},
    {Op::Pow, 0, -1, 0, kInf},
    {Op::Pow, -0.0, -1, 0, -kInf},
    {Op::Pow, -0.0, 1, 0, -0.0},
    {Op::Pow, -kInf, 3, 0, -kInf},
    {Op::Sqrt, -0.0, 0, 0, -0.0},
    {Op::Sqrt, -1, 0, 0, kNan},
    {Op::Rsqrt, 0, 0, 0, kInf},
    {Op::Rsqrt, -0.0, 0, 0, -kInf},
    {Op::Hypot, kInf, kNan, 0, kInf},
    {Op::Reciprocal, -0.0, 0, 0, -kInf},
    // Angles.
    {Op::Atan2, 0, 0, 0, 0},
    {Op::Atan2, -0.0, 0, 0, -0.0},
    {Op::Atan2, 0, -0.0, 0, 3.14159265358979323846},
    {Op::Atan2, -0.0, -0.0, 0, -3.14159265358979323846},
    {Op::Acos, 1, 0, 0, 0},
    {Op::Acos, 1.5, 0, 0, kNan},
    // Signs.
    {Op::Sign, -0.0, 0, 0, -0.0},
    {Op::Sign, kNan, 0, 0, kNan},
    {Op::Sign, -kInf, 0, 0, -1},
    {Op::Abs, -0.0, 0, 0, 0},
    {Op::Neg, 0, 0, 0, -0.0},
    // Composite ops: edges, NaN, and sums that must not overflow.
    {Op::Clamp, 5, 2, 1, 1},
    {Op::Clamp, 0, 2, 1, 1},
    {Op::Clamp, kNan, 0, 1, kNan},
    {Op::Clamp, 5, kNan, 1, kNan},
    {Op::Smoothstep, 1, 1, 1, kNan},
    {Op::Smoothstep, 1, 1, 2, 1},
    {Op::Smoothstep, 1, 1, 0, 0},
    {Op::Smoothstep, 1, 0, 0.25, 0.84375},
    {Op::Step, 1, 1, 0, 1},
    {Op::Step, 1, kNan, 0, 1},
    {Op::Relu, kNan, 0, 0, kNan},
    {Op::Relu, -0.0, 0, 0, 0},
    {Op::Fract, -0.25, 0, 0, 0.75},
    {Op::Softplus, -1000, 0, 0, 0},
    {Op::Sigmoid, -1000, 0, 0, 0},
    {Op::Sigmoid, 1000, 0, 0, 1},
    {Op::Silu, -1000, 0, 0, -0.0},
    {Op::Silu, -kInf, 0, 0, -0.0},
    {Op::Silu, kInf, 0, 0, kInf},
    {Op::Silu, -0.0, 0, 0, -0.0},
    {Op::Silu, kNan, 0, 0, kNan},
    {Op::Gelu, -kInf, 0, 0, -0.0},
    {Op::Gelu, kInf, 0, 0, kInf},
    {Op::Gelu, -0.0, 0, 0, -0.0},
    {Op::Gelu, 0, 0, 0, 0},
    {Op::Gelu, -200, 0, 0, -0.0},
    {Op::Gelu, kNan, 0, 0, kNan},
    {Op::NormalCdf, -kInf, 0, 0, 0},
    {Op::NormalCdf, kInf, 0, 0, 1},
    {Op::NormalCdf, -0.0, 0, 0, 0.5},
    {Op::Elu, -kInf, 2, 0, -2},
};

TEST(EvaluateSpecial, Table) {
  for (const Special& row : kSpecials) {
    const double value = ir::apply(row.op, row.a, row.b, row.c);
    EXPECT_TRUE(same_bits(value, row.value))
        << ir::info(row.op).name << " of " << row.a << ", " << row.b << ", " << row.c << " is "
        << value << ", not " << row.value;
  }
}

// Ops that commute in the table do so for all pairs of special values, in float too.
TEST(EvaluateSpecial, CommutativeOpsCommute) {
  for (Op op : all_ops()) {
    if (!ir::info(op).commutes) continue;
    for (double a : special_values()) {
      for (double b : special_values()) {
        EXPECT_TRUE(same_bits(ir::apply(op, a, b, 0.5), ir::apply(op, b, a, 0.5)))
            << ir::info(op).name;
        const auto x = static_cast<float>(a), y = static_cast<float>(b);
        EXPECT_TRUE(same_bits(ir::apply(op, x, y, 0.5f), ir::apply(op, y, x, 0.5f)));
      }
    }
  }
}

TEST(EvaluateSpecial, BooleanOpsAreOneOrZero) {
  for (Op op : all_ops()) {
    if (!ir::info(op).boolean) continue;
    for (double a : special_values()) {
      for (double b : special_values()) {
        const double value = ir::apply(op, a, b, 0.0);
        EXPECT_TRUE(same_bits(value, 0.0) || value == 1) << ir::info(op).name;
      }
    }
  }
}

TEST(EvaluateProgram, ReadsEveryLeafSpace) {
  const ir::Program program = ir::parse(R"(
    program parameters=2 data=1 uniforms=1 seeds=1 {
      %p = parameter 1 %d = data 0 %u = uniform 0 %t = tangent 0 %s = seed 0 %l = literal 0.5
      %a = mul %p, %d %b = sub %a, %u %c = fma %t, %s, %b %e = sub %c, %l
      return %e, %p
    })");
  const Point x = {{9, 2}, {3}, {4}, {5, 9}, {7}};
  EXPECT_EQ(ir::evaluate(program, x.inputs()), (std::vector<double>{2 * 3 - 4 + 5 * 7 - 0.5, 2}));
  const Point none = {{9, 2}, {}, {4}, {5, 9}, {7}};
  try {
    ir::evaluate(program, none.inputs());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Shape);
    EXPECT_STREQ(error.what(), "evaluate: expected at least 1 values for data leaves, got 0");
  }
}

}  // namespace
}  // namespace topograd::test
