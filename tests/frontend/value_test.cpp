// Values: the op of each function, conversion of numbers, errors.
#include <gtest/gtest.h>
#include "../../ir/evaluate.hpp"

#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include "reference.hpp"

namespace topograd::test {
namespace {

using Unary = Value (*)(const Value&);
using Binary = Value (*)(const Value&, const Value&);
using Ternary = Value (*)(const Value&, const Value&, const Value&);
using Compare = Bool (*)(const Value&, const Value&);

struct Function {
  ir::Op op;
  std::function<Value(const Value&, const Value&, const Value&)> call;
};

Function row(ir::Op op, Unary f) {
  return {op, [f](const Value& a, const Value&, const Value&) { return f(a); }};
}
Function row(ir::Op op, Binary f) {
  return {op, [f](const Value& a, const Value& b, const Value&) { return f(a, b); }};
}
Function row(ir::Op op, Ternary f) { return {op, f}; }
Function row(ir::Op op, Compare f) {
  return {op, [f](const Value& a, const Value& b, const Value&) { return f(a, b).value(); }};
}

std::vector<Function> functions() {
  using ir::Op;
  const auto truth = [](const Value& a) { return Bool(a); };
  return {
      {Op::Add, [](auto& a, auto& b, auto&) { return a + b; }},
      {Op::Sub, [](auto& a, auto& b, auto&) { return a - b; }},
      {Op::Mul, [](auto& a, auto& b, auto&) { return a * b; }},
      {Op::Div, [](auto& a, auto& b, auto&) { return a / b; }},
      {Op::Neg, [](auto& a, auto&, auto&) { return -a; }},
#define TG_FUNCTION1(function, op) row(Op::op, Unary(function)),
#define TG_FUNCTION2(function, op) row(Op::op, Binary(function)),
#define TG_FUNCTION3(function, op) row(Op::op, Ternary(function)),
#include "../../frontend/value/functions.def"
      row(Op::Pow, Binary(pow)),
      row(Op::Eq, Compare(operator==)),
      row(Op::Ne, Compare(operator!=)),
      row(Op::Lt, Compare(operator<)),
      row(Op::Le, Compare(operator<=)),
      row(Op::Gt, Compare(operator>)),
      row(Op::Ge, Compare(operator>=)),
      {Op::And, [=](auto& a, auto& b, auto&) { return (truth(a) && truth(b)).value(); }},
      {Op::Or, [=](auto& a, auto& b, auto&) { return (truth(a) || truth(b)).value(); }},
      {Op::Not, [=](auto& a, auto&, auto&) { return (!truth(a)).value(); }},
      {Op::Select, [=](auto& a, auto& b, auto& c) { return select(truth(a), b, c); }},
  };
}

TEST(Value, EveryFunctionIsItsOpWithItsOperandsInOrder) {
  std::set<ir::Op> seen;
  for (const Function& f : functions()) {
    SCOPED_TRACE(std::string(ir::info(f.op).name));
    seen.insert(f.op);
    Single single({1.75, 1.25, 1.5});
    single.problem.add_residual(f.call(single.p[0], single.p[1], single.p[2]));
    EXPECT_EQ(single.count(f.op), 1u);
    EXPECT_EQ(ir::operation_count(single.program()), 1u);
    const double expected = ir::apply<double>(f.op, 1.75, 1.25, 1.5);
    const double got = residuals(single.problem)[0];
    EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << got;
  }
  for (const ir::OpInfo& info : ir::kOps) {
    const bool internal = info.leaf || info.op == ir::Op::Zmul;
    EXPECT_EQ(seen.count(info.op), internal ? 0u : 1u) << info.name;
  }
}

TEST(Value, CompoundAssignmentIsTheOperator) {
  Single single({5.0, 3.0, 2.0});
  Value v = single.p[0];
  v += single.p[1];
  v *= single.p[2];
  v -= 1.0;
  v /= 4;
  single.problem.add_residual(+v);
  EXPECT_DOUBLE_EQ(residuals(single.problem)[0], 3.75);
  EXPECT_EQ(single.program().leaves.data, 2u);
}

TEST(Value, EachNumberIsADataLeafOfItsOwnAndLiteralsAreStructure) {
  Single single;
  single.problem.add_residual((single.p[0] + 2.0) * 2.0 + literal(2.0) * literal(2.0));
  EXPECT_EQ(single.program().leaves.data, 2u);
  EXPECT_EQ(single.count(ir::Op::Literal), 1u);
  single.problem.add_residual((single.p[0] + 3.0) * NAN + literal(2.0) * literal(2.0));
  EXPECT_EQ(single.problem.topology_count(), 1u);
  single.problem.add_residual((single.p[0] + 2.0) * 2.0 + literal(2.5) * literal(2.5));
  EXPECT_EQ(single.problem.topology_count(), 2u);
}

TEST(Value, PowerIsWrittenOutForSmallIntegersAndTheirHalves) {
  const struct {
    double exponent;
    std::size_t pow_ops;
    std::size_t data;
  } rows[] = {{0, 0, 0},    {1, 0, 0},       {2, 0, 0},    {3, 0, 0},    {4, 0, 0},  {7, 0, 0},
              {15, 0, 0},   {64, 0, 0},      {-1, 0, 0},   {-2, 0, 0},   {-5, 0, 0}, {0.5, 0, 0},
              {1.5, 0, 0},  {2.5, 0, 0},     {-0.5, 0, 0}, {-3.5, 0, 0}, {65, 1, 0}, {-70.5, 1, 0},
              {0.25, 1, 1}, {1.0 / 3, 1, 1}, {-2.1, 1, 1}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.exponent);
    Single single({1.0625, 1.0, 1.0});
    single.problem.add_residual(pow(single.p[0], row.exponent) + 0 * single.p[1]);
    EXPECT_EQ(single.count(ir::Op::Pow), row.pow_ops);
    EXPECT_EQ(single.program().leaves.data, row.data + 1);
    const double expected = std::pow(1.0625, row.exponent);
    EXPECT_NEAR(residuals(single.problem)[0] / expected, 1.0, 1e-13);
    if (row.exponent != std::floor(row.exponent)) continue;
    Single integer({1.0625, 1.0, 1.0});
    integer.problem.add_residual(pow(integer.p[0], static_cast<int>(row.exponent)) +
                                 0 * integer.p[1]);
    EXPECT_TRUE(integer.program() == single.program());
  }
}

TEST(Value, PowerOfANumberToAValueIsGeneral) {
  Single single({3.0, 1.0, 1.0});
  single.problem.add_residual(pow(2.0, single.p[0]) + pow(single.p[1], single.p[0]));
  EXPECT_EQ(single.count(ir::Op::Pow), 2u);
  EXPECT_DOUBLE_EQ(residuals(single.problem)[0], 9.0);
}

TEST(Value, SelectTakesOneSide) {
  Single single({2.0, 3.0, 1.0});
  const Value& a = single.p[0];
  single.problem.add_residual(select(a > 1.0 && !(a > 5.0), a, single.p[1]));
  single.problem.add_residual(select(a < 1.0 || a > 5.0, a, single.p[1]));
  EXPECT_EQ(residuals(single.problem), (std::vector<double>{2.0, 3.0}));
}

TEST(Value, UseWithoutAnExpressionIsAnError) {
  Single single;
  const Value empty;
  const std::string text = "stale_value: value: a default-constructed Value has no expression";
  EXPECT_EQ(error_of([&] { (void)(empty + single.p[0]); }), text);
  EXPECT_EQ(error_of([&] { (void)(single.p[0] * empty); }), text);
  EXPECT_EQ(error_of([&] { (void)sin(empty); }), text);
  EXPECT_EQ(error_of([&] { single.problem.add_residual(empty); }),
            "stale_value: add_residual: a default-constructed Value has no expression, "
            "in residual #0");
  Value moved = single.p[0];
  const Value taken = std::move(moved);
  EXPECT_EQ(error_of([&] { (void)sqrt(moved); }), text);  // NOLINT: use after move is the test
}

TEST(Value, UseOnAnotherThreadIsAnError) {
  Single single;
  std::optional<Value> foreign;
  std::thread([&] {
    foreign = single.p[0] * 2.0;
    const Value copy = *foreign;
    single.problem.add_residual(copy);
  }).join();
  EXPECT_EQ(single.problem.residual_count(), 1u);
  EXPECT_EQ(error_of([&] { (void)(*foreign + 1.0); }),
            "stale_value: value: a Value belongs to another thread, or its thread has ended");
  EXPECT_EQ(error_of([&] { single.problem.add_residual(*foreign, {.label = "far"}); }),
            "stale_value: add_residual: a Value belongs to another thread, or its thread has "
            "ended, in residual \"far\" #1");
}

}  // namespace
}  // namespace topograd::test
