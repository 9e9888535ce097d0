// Branches on Values while residuals are traced: records, their residuals, and errors.
#include <gtest/gtest.h>

#include "../../frontend/problem.hpp"
#include "../../frontend/value/eager.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference.hpp"

namespace topograd::test {
namespace {

std::size_t guards_of(const Problem& problem, std::size_t t) {
  return problem.topology(t).program.guards.size();
}

TEST(Branch, TakesTheSideThatHoldsNowAndRecordsIt) {
  std::vector<double> x = {1.0, 2.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (const int k : {0, 1}) {
    Value r = p[0];
    if (p[static_cast<std::size_t>(k)] < 1.5) {
      r = r * 3.0;
    } else {
      r = r + 5.0;
    }
    problem.add_residual(r);
  }
  EXPECT_EQ(residuals(problem), (std::vector<double>{3.0, 6.0}));
  ASSERT_EQ(problem.topology_count(), 2u);
  EXPECT_EQ(guards_of(problem, 0), 1u);
  EXPECT_EQ(guards_of(problem, 1), 1u);
  EXPECT_TRUE(problem.topology(0).program.guards[0].expected);
  EXPECT_FALSE(problem.topology(1).program.guards[0].expected);
}

TEST(Branch, ResidualsOfOnePathAreOneTopologyAndMatchFast) {
  std::vector<double> x(1000);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = k % 2 == 0 ? 1.0 : -1.0;
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const Value a = p[k];
    Value r = a;
    if (a > 0.5 && a < 7.0) r = r * 2.0;
    problem.add_residual(r - 1.0);
  }
  EXPECT_EQ(problem.topology_count(), 2u);
  EXPECT_GE(problem.statistics().fast_matches, 990u);
}

TEST(Branch, LoopsTernariesAndLogic) {
  std::vector<double> x = {10.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  Value a = p[0];
  int halvings = 0;
  while (a > 1.0) {
    a = a * 0.5;
    ++halvings;
  }
  const Value b = a < 0.5 || !(a < 2.0) ? a : Value(a + 1.0);
  problem.add_residual(b);
  EXPECT_EQ(halvings, 4);
  EXPECT_EQ(residuals(problem), (std::vector<double>{1.625}));
  EXPECT_EQ(guards_of(problem, 0), 6u);
}

// A branch belongs to every residual that uses nodes made after it or chosen by it.
TEST(Branch, SharedExpressionsCarryTheirBranches) {
  std::vector<double> x = {1.0, 2.0, 3.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Value y = p[1], z = p[2];  // handles that outlive the residuals
  Value shared = y;
  problem.add_residual(y + z);
  {
    Value made;
    if (p[0] > 0.0) {
      made = p[1] * p[2];
    } else {
      made = p[1] - p[2];
    }
    problem.add_residual(made);
    problem.add_residual(made * 2.0);  // after its residual was finished
    problem.add_residual(p[0]);
    problem.add_residual(made * made);
  }
  if (p[0] > 0.5) shared = z;  // chosen among old handles: no node of its own
  problem.add_residual(p[0] * 7.0);
  problem.add_residual(p[0] * 7.0 + 1.0);
  problem.add_residual(shared * 2.0 - 1.0);
  std::vector<std::size_t> guards;
  for (std::uint64_t row = 0; row < problem.residual_count(); ++row)
    guards.push_back(guards_of(problem, problem.locate(row).topology));
  EXPECT_EQ(guards, (std::vector<std::size_t>{0, 1, 1, 0, 1, 1, 0, 1}));
}

TEST(Branch, TapesAreRecycledAllTheSame) {
  std::vector<double> x = {1.0, 2.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  std::uint64_t most = 0;
  for (int k = 0; k < 5000; ++k) {
    const Value a = p[0];
    if (a > 0.0) problem.add_residual(a - 1.0);
    most = std::max(most, detail::tape.size);
  }
  EXPECT_LT(most, 64u);
  EXPECT_LE(detail::tape.branches, 1u);
}

TEST(Branch, MapsTraceOncePerPathThatOccurs) {
  const std::size_t n = 300;
  std::vector<double> x(n);
  std::vector<std::uint32_t> indices;
  for (std::size_t k = 0; k < n; ++k) {
    x[k] = static_cast<double>(k % 3);
    indices.push_back(static_cast<std::uint32_t>(k));
  }
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  int calls = 0;
  problem.add_residuals(n,
                        [&](Element e) -> Value {
                          ++calls;
                          const Value a = e.scalar(p, 0);
                          if (a < 0.5) return a + 1.0;
                          if (a < 1.5) return a * 5.0;
                          return a - 7.0;
                        },
                        {.indices = indices});
  EXPECT_EQ(calls, 6);  // twice each, to compare the results
  EXPECT_EQ(problem.statistics().map_traces, 3u);
  EXPECT_EQ(problem.topology_count(), 3u);
  const std::vector<double> r = residuals(problem);
  for (std::size_t k = 0; k < n; ++k)
    EXPECT_EQ(r[k], k % 3 == 0 ? 1.0 : k % 3 == 1 ? 5.0 : -5.0) << k;
}

// An index that only one side reads may be out of range if the other side is taken.
TEST(Branch, RangesAreCheckedOnThePathTaken) {
  std::vector<double> x = {1.0, 2.0};
  std::vector<std::uint32_t> indices = {0, 1, 1, 99};
  std::vector<double> flags = {1.0, 0.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const auto f = [p](Element e) -> Value {
    if (e.data(0) > 0.5) return e.scalar(p, 0) - e.scalar(p, 1);
    return e.scalar(p, 0);
  };
  problem.add_residuals(2, f, {.indices = indices, .data = flags});
  EXPECT_EQ(residuals(problem), (std::vector<double>{-1.0, 2.0}));
  flags = {1.0, 1.0};
  EXPECT_EQ(
      error_of([&] {
        problem.add_residuals(2, f, {.indices = indices, .data = flags});
      }).substr(0, 90),
      "invalid_argument: add_residuals: index 1 of element 1 selects block 99, out of range (the ");
}

TEST(Branch, ManyElementsTakeLinearTime) {
  const auto seconds = [](std::size_t n) {
    std::vector<double> x(n);
    std::vector<std::uint32_t> indices;
    for (std::size_t k = 0; k < n; ++k) {
      x[k] = std::sin(static_cast<double>(k));
      indices.push_back(static_cast<std::uint32_t>(k));
    }
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    const auto begin = std::chrono::steady_clock::now();
    problem.add_residuals(n,
                          [p](Element e) -> Value {
                            const Value a = e.scalar(p, 0);
                            if (a < 0.0) return exp(a);
                            return a * a;
                          },
                          {.indices = indices});
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(problem.topology_count(), 2u);
    EXPECT_EQ(problem.statistics().map_traces, 2u);
    return elapsed.count();
  };
  seconds(10000);
  const double some = seconds(10000), many = seconds(100000);
  EXPECT_LT(many, 30 * some + 1);  // comparing every pair would take minutes
}

TEST(Branch, VariablesOfTheEagerModeDecideByTheirNumber) {
  Value x = variable(2.0);
  const auto f = [&] { return x > 1.0 ? x * x : Value(5.0 * x); };
  Value z = f();
  z.backward();
  EXPECT_EQ(z.value(), 4.0);
  EXPECT_EQ(x.grad(), 4.0);
  x.set_value(0.5);
  EXPECT_EQ(f().value(), 2.5);
}

TEST(Branch, NanIsWhatCppTakesItFor) {
  std::vector<double> x = {std::nan("")};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  int sides = 0;
  if (p[0] < 1.0) sides += 1;
  if (p[0] >= 1.0) sides += 10;
  if (!(p[0] < 1.0)) sides += 100;
  if (p[0] != p[0]) sides += 1000;
  EXPECT_EQ(sides, 1100);
}

TEST(Branch, ErrorsSayWhatHasNoNumber) {
  std::vector<double> x = {1.0, 2.0};
  std::vector<std::uint32_t> indices = {0, 1}, beyond = {5};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  std::optional<Value> kept;
  problem.add_residuals(2,
                        [&](Element e) {
                          kept = e.scalar(p, 0);
                          return *kept;
                        },
                        {.indices = indices});
  EXPECT_EQ(
      error_of([&] { (void)static_cast<bool>(*kept > 0.0); }),
      "stale_value: if: the condition reads a Value of a map's element outside of the callable "
      "that it was made for");
  kept.reset();
  std::optional<Bool> condition;
  {
    std::vector<double> gone = {1.0};
    Problem other;
    kept = other.add_parameters(gone)[0];
    condition = *kept > 0.0;
  }
  EXPECT_EQ(error_of([&] { (void)static_cast<bool>(*kept > 0.0); }),
            "stale_value: value: a Value belongs to a problem that is gone");
  EXPECT_EQ(error_of([&] { (void)static_cast<bool>(*condition); }),
            "wrong_problem: if: the condition reads a parameter of a problem that is no more");
  EXPECT_EQ(
      error_of([&] {
        problem.add_residuals(1,
                              [&](Element e) -> Value {
                                if (e.scalar(p, 0) > 0.0) return e.scalar(p, 0);
                                return p[0];
                              },
                              {.indices = beyond});
      }),
      "invalid_argument: if: the condition reads index 0 of an element, which selects block 5, "
      "out of range (the array has 2)");
  EXPECT_EQ(
      error_of([&] {
        problem.add_residuals(2,
                              [&, owned = std::make_unique<int>(1)](Element e) -> Value {
                                if (e.scalar(p, 0) > 0.0) return e.scalar(p, 0);
                                return p[0];
                              },
                              {.indices = indices});
      }),
      "unsupported: add_residuals: a callable with branches is kept, to be called again where "
      "they change; expected one that can be copied");
}

}  // namespace
}  // namespace topograd::test
