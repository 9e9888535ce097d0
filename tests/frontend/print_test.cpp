// Values as text.
#include "../../frontend/problem.hpp"
#include "../../frontend/value/eager.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

namespace topograd::test {
namespace {

template <class T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(Print, AnExpressionIsItsFormula) {
  std::vector<double> memory(6);
  const std::vector<double> numbers = {7, 8};
  Problem problem;
  const Parameters x = problem.add_parameters(memory, 3);
  const Data d = problem.add_data(numbers);
  const Uniform u = problem.add_uniform(2);
  EXPECT_EQ(text(x(1, 0)), "x[3]");
  EXPECT_EQ(text(norm(x.vec3(0) - x.vec3(1)) - 1.5),
            "t1 = (x[0] - x[3])^2 + (x[1] - x[4])^2 + (x[2] - x[5])^2; "
            "select(t1 == 0, 0, sqrt(t1)) - 1.5");
  EXPECT_EQ(text(u * d[1] + literal(0.25)), "u[0] * d[1] + 0.25");
  EXPECT_EQ(text(u), "u[0]");
  EXPECT_EQ(text(x(0, 0) < 2.0), "x[0] < 2");
  EXPECT_EQ(text(Vec2{x(0, 0), x(0, 1) + 2.0}), "(x[0], x[1] + 2)");
  EXPECT_EQ(text(Mat2{{x(0, 0), x(0, 1), x(0, 2), x(1, 0)}}), "(x[0], x[1])\n(x[2], x[3])");
  const Value three = variable(3.0);
  EXPECT_EQ(text(three * 2.0), text(three) + " * 2");
  problem.add_residuals(1,
                        [&](Element e) {
                          const Value a = e.data(0), b = e.data(1);
                          EXPECT_EQ(text(a * b), "e[0] * e[1]");
                          return x(0, 0) * e.data(0);
                        },
                        {.data = numbers});
}

TEST(Print, WhatHasNoExpressionSaysSo) {
  EXPECT_EQ(text(Value()), "(no expression)");
  std::vector<double> memory(1);
  Problem problem;
  const Value x = problem.add_parameters(memory)[0];
  std::string other;
  std::thread([&] { other = text(x); }).join();
  EXPECT_EQ(other, "(no expression)");
}

TEST(Print, ALongFormulaIsCut) {
  std::vector<double> memory(1);
  Problem problem;
  const Parameters x = problem.add_parameters(memory);
  Value sum = x[0];
  for (int k = 0; k < 100'000; ++k) sum = sin(sum) + x[0];
  const std::string formula = text(sum);
  EXPECT_LT(formula.size(), 2010u);
  EXPECT_TRUE(formula.ends_with(" ...")) << formula;
}

}  // namespace
}  // namespace topograd::test
