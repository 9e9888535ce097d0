// Text expressions: meaning, errors with their place, formulas that read back.
#include "../support/random_program.hpp"

#include "../../api/expression/expression.hpp"
#include "../../api/readable.hpp"
#include "../../autodiff/derivatives.hpp"
#include "../../frontend/problem.hpp"
#include "../../ir/checking/error_bound.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/text.hpp"
#include "../../ir/topology/topology.hpp"
#include "../../ir/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace topograd::test {
namespace {

const ExpressionNames kNames = {
    .parameters = {"x", "y", "v[0]", "v[1]"}, .data = {"L"}, .uniforms = {"w"}};
constexpr double kX = 1.25, kY = -0.5, kV0 = 3, kV1 = 7, kL = 2, kW = 0.75;

std::vector<double> value(const std::string& text) {
  const std::vector<double> p = {kX, kY, kV0, kV1}, d = {kL}, u = {kW};
  const ir::Program program = parse(text, kNames);
  EXPECT_FALSE(ir::find_violation(program)) << text;
  return ir::evaluate<double>(program, {.parameters = p, .data = d, .uniforms = u});
}

struct Meaning {
  const char* text;
  double value;
};

TEST(Parse, Means) {
  const Meaning rows[] = {
      {"x + y * L", kX + kY * kL},
      {"(x + y) * L", (kX + kY) * kL},
      {"x - y - L", kX - kY - kL},
      {"x - (y - L)", kX - (kY - kL)},
      {"x / y / L", kX / kY / kL},
      {"x / y * L", kX / kY * kL},
      {"1 / x", 1 / kX},
      {"1 / x * L", 1 / kX * kL},
      {"-x^2", -(kX * kX)},
      {"(-x)^2", kX * kX},
      {"2^3^2", 512},
      {"(2^3)^2", 64},
      {"2^-x", std::pow(2.0, -kX)},
      {"x^-2", 1 / (kX * kX)},
      {"x^(-2)", 1 / (kX * kX)},
      {"x^0.5", std::sqrt(kX)},
      {"x^-1.5", 1 / (kX * std::sqrt(kX))},
      {"x^0", 1},
      {"x^0.3", std::pow(kX, 0.3)},
      {"x^100", std::pow(kX, 100)},
      {"pow(x, 2)", std::pow(kX, 2)},
      {"- -x", kX},
      {"+x", kX},
      {"--2", 2},
      {"x--2", kX + 2},
      {"x < y", 0},
      {"y < x && x <= L", 1},
      {"y >= x || !(x == L)", 1},
      {"!x == 0", 1},
      {"1 + 1 == 2", 1},
      {"x != y", 1},
      {"select(x > y, x, y)", kX},
      {"sqrt((x - v.x)^2 + (y - v.y)^2) - L",
       std::sqrt((kX - kV0) * (kX - kV0) + (kY - kV1) * (kY - kV1)) - kL},
      {"v[0] * 10 + v.y", kV0 * 10 + kV1},
      {"w*x", kW * kX},
      {"pi", std::numbers::pi},
      {"inf", INFINITY},
      {"1e-3 + .5 + 2.", 1e-3 + .5 + 2.},
      {"clamp(x, 0, 1)", 1},
      {"atan2(y, x)", std::atan2(kY, kX)},
      {"t = x + y; s = t * t; s - t", (kX + kY) * (kX + kY) - (kX + kY)},
      {"  x\n +\ty ; ", kX + kY},
  };
  for (const Meaning& row : rows) {
    SCOPED_TRACE(row.text);
    const std::vector<double> got = value(row.text);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_PRED2([](double a, double b) { return same_bits(a, b); }, got[0], row.value);
  }
  EXPECT_EQ(value("x; y; x").size(), 3u);
  EXPECT_TRUE(std::isnan(value("nan")[0]));
}

TEST(Parse, EveryOpByItsName) {
  const double args[] = {0.3, 0.7, 0.4};
  for (const ir::Op op : all_ops()) {
    std::string text = std::string(ir::info(op).name) + "(0.3";
    for (int k = 1; k < ir::arity(op); ++k) text += k == 1 ? ", 0.7" : ", 0.4";
    const double expected = ir::apply<double>(op, args[0], args[1], args[2]);
    EXPECT_PRED2([](double a, double b) { return same_bits(a, b); }, value(text + ")")[0], expected)
        << text;
  }
}

// A residual in C++ and as text is one topology.
TEST(Parse, PowersHaveTheStructureOfCpp) {
  for (const double exponent :
       {-64.0, -7.0, -2.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 11.0, 63.5, 65.0}) {
    std::vector<double> x = {1.5};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    problem.add_residual(pow(p[0], exponent));
    const std::string text = "x^" + ir::print_number(exponent);
    EXPECT_EQ(ir::print(problem.topology(0).program),
              ir::print(ir::canonicalize(parse(text, {.parameters = {"x"}})).topology.program))
        << text;
  }
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int k = 0; k < count; ++k) out += text;
  return out;
}

TEST(Parse, AnyDepth) {
  constexpr int kDepth = 200'000;
  const std::string deep = repeated("sin(", kDepth) + "x" + repeated(")", kDepth);
  EXPECT_EQ(ir::operation_count(parse(deep, kNames)), std::size_t{kDepth});
  EXPECT_EQ(value(repeated("(", kDepth) + "x" + repeated(")", kDepth))[0], kX);
  const ir::Program chain =
      parse("x" + repeated(" + sin(y)", 10) + repeated(" + x", kDepth), kNames);
  const ir::Program again = parse(formulas(chain, kNames).text(), kNames);
  EXPECT_EQ(chain.nodes.size(), again.nodes.size());
}

struct Mistake {
  const char* text;
  const char* error;
};

TEST(Parse, SaysWhatIsWrongAndWhere) {
  const Mistake rows[] = {
      {"",
       "expression: line 1, column 1: expected a number, a name or '(', got the end of the "
       "text\n  \n  ^"},
      {"sqrt(x +)",
       "expression: line 1, column 9: expected a number, a name or '(', got ')'\n"
       "  sqrt(x +)\n          ^"},
      {"sqrt(x",
       "expression: line 1, column 7: expected an operator, ',' or ')', got the end of "
       "the text\n  sqrt(x\n        ^"},
      {"(x * (y + 1)",
       "expression: line 1, column 13: expected an operator or ')', got the end of "
       "the text\n  (x * (y + 1)\n              ^"},
      {"x)",
       "expression: line 1, column 2: expected an operator, ';' or the end of the text, got "
       "')'\n  x)\n   ^"},
      {"x,\ny",
       "expression: line 1, column 2: expected an operator, ';' or the end of the text, "
       "got ','\n  x,\n   ^"},
      {"x +\n y * z",
       "expression: line 2, column 6: expected one of the names x, y, v[0], v[1], L, "
       "w, got 'z'\n   y * z\n       ^"},
      {"2x",
       "expression: line 1, column 2: expected an operator, ';' or the end of the text, got "
       "'x'\n  2x\n   ^"},
      {"root(x)",
       "expression: line 1, column 1: expected the name of a function before '(', got "
       "'root'\n  root(x)\n  ^"},
      {"literal(x)",
       "expression: line 1, column 1: expected the name of a function before '(', got "
       "'literal'\n  literal(x)\n  ^"},
      {"sqrt(x, y)",
       "expression: line 1, column 1: expected 1 argument of sqrt, got 2\n"
       "  sqrt(x, y)\n  ^"},
      {"x + atan2(y)",
       "expression: line 1, column 5: expected 2 arguments of atan2, got 1\n"
       "  x + atan2(y)\n      ^"},
      {"sin()", "expression: line 1, column 1: expected 1 argument of sin, got 0\n  sin()\n  ^"},
      {"x $ y",
       "expression: line 1, column 3: expected a number, a name or an operator, got '$'\n"
       "  x $ y\n    ^"},
      {"é",
       "expression: line 1, column 1: expected a number, a name or an operator, got 'é'\n"
       "  é\n  ^"},
      {"v.q", "expression: line 1, column 2: expected a coordinate .x, .y, .z or .w\n  v.q\n   ^"},
      {"v[x]", "expression: line 1, column 2: expected a coordinate [0], [1], ...\n  v[x]\n   ^"},
      {"1e999 + x",
       "expression: line 1, column 1: expected a number that a double can hold, got "
       "'1e999'\n  1e999 + x\n  ^"},
      {"x = 1; x", "expression: line 1, column 1: the name 'x' is taken\n  x = 1; x\n  ^"},
      {"t = x",
       "expression: line 1, column 6: expected an expression, got the end of the text\n"
       "  t = x\n       ^"},
      {"z = = y",
       "expression: line 1, column 5: expected a number, a name or '(', got '='\n"
       "  z = = y\n      ^"},
  };
  for (const Mistake& row : rows) {
    try {
      parse(row.text, kNames);
      ADD_FAILURE() << row.text << ": no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), row.error);
      EXPECT_EQ(error.code(), ErrorCode::Parse);
    }
  }
}

TEST(Parse, SaysWhichNameIsWrong) {
  const struct {
    ExpressionNames names;
    const char* error;
  } rows[] = {
      {{.parameters = {"x", "2y"}},
       "names: \"2y\" is no name (a letter, then letters, digits and underscores; not pi, inf or "
       "nan)"},
      {{.parameters = {""}},
       "names: \"\" is no name (a letter, then letters, digits and underscores; not pi, inf or "
       "nan)"},
      {{.parameters = {"x"}, .data = {"x"}}, "names: \"x\" is there twice"},
  };
  for (const auto& row : rows) {
    try {
      parse("x", row.names);
      ADD_FAILURE() << row.error;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), row.error);
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    }
  }
}

TEST(Formulas, AreShortAndReadBack) {
  const struct {
    const char* text;
    const char* printed;
  } rows[] = {
      {"sqrt((x - v.x)^2 + (y - v.y)^2) - L", "sqrt((x - v[0])^2 + (y - v[1])^2) - L;\n"},
      {"((x + y)) * (L)", "L * (x + y);\n"},
      {"x - (y - L) - (w - 1)", "x - (y - L) - (w - 1);\n"},
      {"x / (y * L)", "x / (y * L);\n"},
      {"x * 1 / y", "x * 1 / y;\n"},
      {"1 / x", "1 / x;\n"},
      {"-(x * y)", "-(x * y);\n"},
      {"-x^2 * -2", "-x^2 * -2;\n"},
      {"(-2)^x + 2^-x + x^y^L", "(-2)^x + 2^-x + x^y^L;\n"},
      {"x^0.3 + pow(x, 2)", "x^0.3 + pow(x, 2);\n"},
      {"x < y || x > 1 && !(y == 2)", "x < y || x > 1 && !(y == 2);\n"},
      {"neg(2) + div(1, x) + neg(neg(x))", "neg(2) + div(1, x) + --x;\n"},
      {"sin(x + y) * (x + y)", "t1 = x + y;\nt1 * sin(t1);\n"},
      {"-x + sin(-x)", "-x + sin(-x);\n"},
      {"exp(x); exp(x) + 1", "t1 = exp(x);\nt1;\nt1 + 1;\n"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.text);
    const ir::Program program = parse(row.text, kNames);
    const std::string printed = formulas(program, kNames).text();
    EXPECT_EQ(printed, row.printed);
    EXPECT_EQ(ir::print(parse(printed, kNames)), ir::print(program));
  }
}

// For random programs over every op; the order of operands changes only the numbers of nodes.
TEST(Formulas, OfRandomProgramsReadBack) {
  const ExpressionNames names = {
      .parameters = {"t1", "t2", "z"}, .data = {"d0", "d1"}, .uniforms = {"u"}};
  std::size_t compared = 0;
  for (std::uint64_t seed = 1; seed <= 2000; seed += kStride) {
    const ir::Program program = random_program(seed, {.operations = 40, .outputs = 3});
    bool has_tangents = false;
    for (const ir::Node& node : program.nodes)
      has_tangents |= node.op == ir::Op::Tangent || node.op == ir::Op::Seed;
    if (has_tangents) continue;
    const std::string printed = formulas(program, names).text();
    const ir::Program again = parse(printed, names);
    ASSERT_EQ(ir::operation_count(again), ir::operation_count(ir::remove_dead(program))) << printed;
    const Point point = random_point(seed, program.leaves, 0.2);
    const std::vector<double> a = ir::evaluate<double>(program, point.inputs());
    const std::vector<double> b = ir::evaluate<double>(again, point.inputs());
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) ASSERT_TRUE(same_bits(a[k], b[k])) << printed;
    ++compared;
  }
  EXPECT_GT(compared, 100u);
}

struct Read {
  const char* text;
  const char* printed;
};
// Formulas as a person would write them; each row is also checked as numbers.
constexpr Read kReads[] = {
    {"x * 1 + 0 * y", "x;\n"},
    {"x + 0", "x;\n"},
    {"0 - x", "-x;\n"},
    {"-(-x)", "x;\n"},
    {"x * y / y", "x;\n"},
    {"x * x / y * (y / x)", "x;\n"},
    {"0.5 / sqrt(x) * 2 * y", "y / sqrt(x);\n"},
    {"2 * (x * 3) * y", "6 * x * y;\n"},
    {"x * -2", "-2 * x;\n"},
    {"x * 2 + y", "y + 2 * x;\n"},
    {"x + x - 3 * x", "-x;\n"},
    {"x - -2 * y", "x + 2 * y;\n"},
    {"-x * y + L", "L - x * y;\n"},
    {"sqrt(x) * sqrt(x) * y", "x * y;\n"},
    {"rsqrt(x) * 4", "4 / sqrt(x);\n"},
    {"x * x * x * x", "pow(x, 4);\n"},
    {"1 / (1 / x)", "x;\n"},
    {"exp(x * 1) / exp(x)", "1;\n"},
    {"sin(-(-x)) - sin(x)", "0;\n"},
    {"select(x > 0, y, y)", "y;\n"},
    {"zmul(x, 3) * y", "3 * x * y;\n"},
};

TEST(Readable, IsWhatAPersonWouldWrite) {
  for (const Read& row : kReads) {
    SCOPED_TRACE(row.text);
    const ir::Program program = parse(row.text, kNames), read = readable(program);
    EXPECT_EQ(formulas(read, kNames).text(), row.printed);
    EXPECT_FALSE(ir::find_violation(read));
  }
}

// A name for each number up to the last one that is read.
TEST(Formulas, WantNamesForAllNumbers) {
  const ir::Program program = parse("x * y", kNames);
  EXPECT_EQ(formulas(program, {.parameters = {"a", "b"}}).text(), "a * b;\n");
  try {
    formulas(program, {.parameters = {"a"}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(error.what(), "formulas: expected a name for parameter 1, got 1 names");
  }
}

// Derivatives of random programs keep their values up to rounding.
TEST(Readable, KeepsTheNumbers) {
  std::size_t compared = 0;
  for (std::uint64_t seed = 1; seed <= 1000; seed += kStride) {
    const ir::Program f = random_program(
        seed,
        {.operations = 12,
         .ops = {ir::Op::Add, ir::Op::Sub, ir::Op::Mul, ir::Op::Div, ir::Op::Neg, ir::Op::Sqrt,
                 ir::Op::Square, ir::Op::Exp, ir::Op::Rsqrt, ir::Op::Cube, ir::Op::Sin}});
    const ir::Program program = autodiff::jacobian(f, autodiff::all_slots(f));
    const ir::Program read = readable(program);
    ASSERT_FALSE(ir::find_violation(read));
    const Point point = random_point(seed, program.leaves, 0);
    const ir::RunningError bound =
        ir::running_error<double>(program, point.inputs(), ir::Against::exact);
    const std::vector<double> got = ir::evaluate<double>(read, point.inputs());
    for (std::size_t k = 0; k < got.size(); ++k) {
      const ir::Enclosure& e = bound.nodes[program.outputs[k]];
      if (!e.known() || !std::isfinite(e.value) || !std::isfinite(got[k])) continue;
      const double size = std::max(1.0, std::fabs(static_cast<double>(e.value)));
      EXPECT_NEAR(got[k], static_cast<double>(e.value),
                  1e-9 * size + 100 * static_cast<double>(e.error))
          << ir::print(f);
      ++compared;
    }
  }
  EXPECT_GT(compared, 50u);
}

}  // namespace
}  // namespace topograd::test
