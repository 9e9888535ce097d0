// Eager mode: numbers, derivatives, constants, lifetimes and errors.
#include "../../frontend/value/eager.hpp"
#include <gtest/gtest.h>
#include "../../frontend/geometry.hpp"

#include <cmath>
#include <thread>

#include "../support/linear_time.hpp"
#include "reference.hpp"

namespace topograd::test {
namespace {

TEST(Eager, ValuesAndGradientsAreThoseOfCalculus) {
  const Value x = variable(2.0), y = variable(-0.5);
  const Value z = x * x * y + sin(x) / 3.0;
  EXPECT_EQ(z.value(), -2.0 + std::sin(2.0) / 3);
  EXPECT_EQ(x.value(), 2.0);
  EXPECT_EQ(x.grad(), 0.0);
  z.backward();
  EXPECT_DOUBLE_EQ(x.grad(), -2.0 + std::cos(2.0) / 3);
  EXPECT_DOUBLE_EQ(y.grad(), 4.0);
}

TEST(Eager, GradientsAddUpUntilTheyAreZeroed) {
  const Value x = variable(3.0), y = variable(5.0);
  const Value z = x * y;
  z.backward();
  z.backward();
  (x + y).backward();
  EXPECT_EQ(x.grad(), 11.0);
  EXPECT_EQ(y.grad(), 7.0);
  x.zero_grad();
  EXPECT_EQ(x.grad(), 0.0);
  EXPECT_EQ(y.grad(), 7.0);
  zero_grad();
  EXPECT_EQ(y.grad(), 0.0);
  x.backward();
  EXPECT_EQ(x.grad(), 1.0);
}

TEST(Eager, NewNumbersReachWhatIsThere) {
  const Value x = variable(3.0);
  const Value z = square(x) + 1.0;
  EXPECT_EQ(z.value(), 10.0);
  x.set_value(-4.0);
  EXPECT_EQ(z.value(), 17.0);
  z.backward();
  EXPECT_EQ(x.grad(), -8.0);
}

TEST(Eager, KinksAndUntakenSidesAreAsInProblems) {
  const Value x = variable(0.0), y = variable(-1.0);
  (norm(Vec2{x, x}) + select(y > 0.0, sqrt(y), x)).backward();
  EXPECT_EQ(x.grad(), 1.0);
  EXPECT_EQ(y.grad(), 0.0);
}

TEST(Eager, DerivativesDoNotGoThroughWhatIsComputedUnderNoGrad) {
  const Value x = variable(3.0);
  const Value before = x * 2.0;
  Value inside;
  {
    const NoGrad guard = no_grad();
    inside = before * x;
    const Value nested = no_grad([&] { return x * 1.0; });
    inside = inside + nested;
  }
  const Value called = no_grad([&] { return exp(x); });
  const Value z = before + inside * x + called;
  EXPECT_DOUBLE_EQ(z.value(), 6.0 + 21.0 * 3 + std::exp(3.0));
  z.backward();
  EXPECT_DOUBLE_EQ(x.grad(), 2.0 + 21.0);
  EXPECT_EQ(error_of([&] { called.backward(); }),
            "no_parameters: backward: the expression does not depend on any variable()");
}

TEST(Eager, VariablesMadeUnderNoGradAreVariablesAndNodesAfterItAreNoConstants) {
  const Value x = no_grad([] { return variable(4.0); });
  for (int k = 0; k < 3; ++k) {
    (void)no_grad([&] { return x * x; }).value();
    const Value z = x * x;  // reuses the constants' memory
    x.zero_grad();
    z.backward();
    EXPECT_EQ(x.grad(), 8.0);
  }
}

TEST(Eager, DescentFindsTheMinimumInBoundedMemory) {
  const Value x = variable(-1.2), y = variable(1.0);
  std::uint64_t nodes = 0;
  for (int k = 0; k < 3000; ++k) {
    zero_grad();
    const Value f = square(1.0 - x) + square(y - square(x));
    f.backward();
    x.set_value(x.value() - 0.1 * x.grad());
    y.set_value(y.value() - 0.1 * y.grad());
    if (k == 10) nodes = detail::tape.size;
  }
  EXPECT_NEAR(x.value(), 1.0, 1e-9);
  EXPECT_NEAR(y.value(), 1.0, 1e-9);
  EXPECT_LE(detail::tape.size, nodes);
}

TEST(Eager, VariablesOfALoopKeepTheirOwnGradients) {
  const Value kept = variable(1.0);
  for (int k = 0; k < 5; ++k) {
    const Value shift = kept + 1.0;
    const Value x = variable(k);
    (x * x * shift).backward();
    EXPECT_EQ(x.grad(), 4.0 * k);
  }
  EXPECT_EQ(kept.grad(), 0.0 + 1 + 4 + 9 + 16);
}

TEST(Eager, ALongChainIsDifferentiated) {
  const Value x = variable(1.0);
  Value sum = x;
  for (int k = 0; k < 200000; ++k) sum += x;
  sum.backward();
  EXPECT_EQ(sum.value(), 200001.0);
  EXPECT_EQ(x.grad(), 200001.0);
}

TEST(Eager, TimeIsLinearInTheLengthOfAChain) {
  expect_linear_time([](int length) {
    const Value x = variable(0.5);
    Value y = x;
    for (int k = 0; k < length; ++k) y = k % 2 == 0 ? y * 0.999 : sin(y);
    y.backward();
    EXPECT_GT(x.grad(), 0);
  });
}

TEST(Eager, OtherValuesHaveNoNumbersOrGradients) {
  Single single;
  const Value x = variable(1.0), p = single.p[2];
  const Uniform u = single.problem.add_uniform(2.0);
  const Value z = x * 2.0;
  const struct {
    std::function<void()> call;
    const char* error;
  } rows[] = {
      {[&] { (void)z.grad(); },
       "invalid_argument: grad: expected a Value made by variable(), got one of mul"},
      {[&] { z.set_value(1); },
       "invalid_argument: set_value: expected a Value made by variable(), got one of mul"},
      {[&] { p.zero_grad(); },
       "invalid_argument: zero_grad: expected a Value made by variable(), got one of parameter"},
      {[&] { literal(2.0).backward(); },
       "no_parameters: backward: the expression does not depend on any variable()"},
      {[&] { (x * p).backward(); },
       "wrong_problem: backward: the expression reads parameter 2 of a problem, which has no "
       "number here; expected variable()s"},
      {[&] { (void)(x + u).value(); },
       "wrong_problem: value: the expression reads uniform 0 of a problem, which has no number "
       "here; expected variable()s"},
      {[&] { (void)Value().value(); },
       "stale_value: value: a default-constructed Value has no expression"},
      {[&] { single.problem.add_residual(p - x, {.label = "mixed"}); },
       "wrong_problem: add_residual: a variable() is not part of a problem, whose unknowns "
       "add_parameters makes, in residual \"mixed\" #0"},
  };
  for (const auto& row : rows) EXPECT_EQ(error_of(row.call), row.error);
  EXPECT_EQ(x.grad(), 0.0);
  EXPECT_EQ(single.problem.residual_count(), 0u);
}

TEST(Eager, AVariableOfAnotherThreadIsAnError) {
  const Value x = variable(1.0);
  std::string error;
  std::thread([&] { error = error_of([&] { (void)x.grad(); }); }).join();
  EXPECT_EQ(error, "stale_value: grad: a Value belongs to another thread, or its thread has ended");
}

TEST(Eager, ProblemsAreTracedBesideIt) {
  Single single;
  const Value x = variable(2.0);
  for (int k = 0; k < 3; ++k) {
    single.problem.add_residual(single.p[0] * square(x).value());
    (x * x).backward();
  }
  EXPECT_EQ(single.problem.topology_count(), 1u);
  EXPECT_EQ(residuals(single.problem), (std::vector<double>(3, 0.7 * 4.0)));
  EXPECT_EQ(x.grad(), 12.0);
}

}  // namespace
}  // namespace topograd::test
