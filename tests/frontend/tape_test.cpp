// The tape: lifetime of nodes by their handles, and recycling of all others.
#include <gtest/gtest.h>
#include "../../frontend/inspect/problem_use.hpp"
#include "../../frontend/value/eager.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <thread>

#include "reference.hpp"

namespace topograd::test {
namespace {

TEST(Tape, IndependentResidualsReuseTheSameNodes) {
  Single single;
  for (int k = 0; k < 10000; ++k) {
    const Value a = single.p[0] * single.p[1];
    single.problem.add_residual(a - k);
  }
  EXPECT_LT(detail::tape.size, 100u);
}

TEST(Tape, ResidualsReuseNodesBehindAnOlderValueThatIsAlive) {
  Single single;
  const Value kept = single.p[0] * single.p[1];
  single.problem.add_residual(kept - 1.0);
  for (int k = 0; k < 10000; ++k) {
    // Two residuals share `inner`, and both share `kept`.
    const Value inner = sin(single.p[2] * kept);
    single.problem.add_residual(inner - k);
    single.problem.add_residual(inner * k);
  }
  EXPECT_LT(detail::tape.size, 200u);
  single.problem.add_residual(kept);
  EXPECT_NEAR(residuals(single.problem).back(), 0.7 * 1.3, 1e-15);
}

// A limit counts the nodes of one residual, and leaves the tape as it was.
TEST(Tape, LimitsEndWhatIsTooLong) {
  Single single;
  const auto chain = [&](int steps) {
    Value y = single.p[0];
    for (int k = 0; k < steps; ++k) y = y * single.p[1];
    return y;
  };
  const auto text = [&](int steps) -> std::string {
    const detail::TraceLimit limit(500);
    try {
      const detail::FinishResidual finish;
      single.problem.add_residual(chain(steps));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(text(200), "");
  EXPECT_EQ(text(200), "");
  EXPECT_EQ(text(600), "the expression has more than 500 operations");
  EXPECT_EQ(text(200), "");
  single.problem.add_residual(chain(600));
  EXPECT_NEAR(residuals(single.problem).back(), 0.7 * std::pow(1.3, 600), 1e55);
}

TEST(Tape, CopiesAssignmentsAndContainersKeepNodesAlive) {
  Single single;
  std::vector<Value> kept;
  std::vector<double> expected;
  Value last = single.p[0];
  for (int k = 0; k < 300; ++k) {
    Value v = single.p[k % 3] * k;
    Value copy = v;
    last = copy;
    kept.push_back(copy);
    expected.push_back(single.x[k % 3] * k);
    single.problem.add_residual(v + 0.5);
    copy = single.p[1];
  }
  for (const Value& v : kept) single.problem.add_residual(v * 1.0);
  single.problem.add_residual(last + 0.0);
  const std::vector<double> rows = residuals(single.problem);
  for (int k = 0; k < 300; ++k) {
    EXPECT_DOUBLE_EQ(rows[k], expected[k] + 0.5);
    EXPECT_DOUBLE_EQ(rows[300 + k], expected[k]);
  }
  EXPECT_DOUBLE_EQ(rows.back(), expected.back());
}

TEST(Tape, AnExceptionInTheMiddleOfAnExpressionLeavesNoTrace) {
  Single single;
  for (int k = 0; k < 1000; ++k) {
    EXPECT_THROW(single.problem.add_residual(sin(single.p[0]) * single.p[99]), Error);
    single.problem.add_residual(single.p[0] - k);
  }
  EXPECT_LT(detail::tape.size, 100u);
  EXPECT_EQ(single.problem.topology_count(), 1u);
}

TEST(Tape, ThreadsTraceProblemsOfTheirOwnSideBySide) {
  constexpr int kCount = 2000;
  std::vector<std::vector<double>> rows(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < rows.size(); ++t)
    threads.emplace_back([&rows, t] {
      Single single({1.0 + static_cast<double>(t), 2.0, 3.0});
      for (int k = 0; k < kCount; ++k)
        single.problem.add_residual(single.p[0] * k + single.p[k % 3]);
      rows[t] = residuals(single.problem);
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const double x = 1.0 + static_cast<double>(t);
    for (int k = 0; k < kCount; ++k) ASSERT_EQ(rows[t][k], x * k + (k % 3 == 0 ? x : k % 3 + 1.0));
  }
}

TEST(Tape, AValueEndsWithItsProblem) {
  const std::string gone = "stale_value: value: a Value belongs to a problem that is gone";
  Single other({1, 2, 3});
  const Value kept = other.p[1] + other.p[2], eager = variable(3.0);
  auto single = std::make_unique<Single>();
  const Value leaf = single->p[0], uniform = single->problem.add_uniform(2.0);
  const Value expression = sin(leaf) + uniform, mixed = leaf + kept, number = 2.5;
  const std::vector<double> numbers = {4, 5};
  const Value entry = single->problem.add_data(numbers)[1];
  single->problem.add_residual(expression * entry);
  single.reset();
  for (const Value& stale : {leaf, uniform, expression, mixed, entry}) {
    EXPECT_EQ(error_of([&] { (void)(stale * 2.0); }), gone);
    EXPECT_EQ(error_of([&] { (void)(2.0 - stale); }), gone);
    EXPECT_EQ(error_of([&] { (void)exp(stale); }), gone);
  }
  // Nodes of other residuals stay alive and are counted as before.
  other.problem.add_residual(kept * number + other.p[0]);
  const Value twice = kept + kept;
  other.problem.add_residual(twice);
  EXPECT_EQ(residuals(other.problem), (std::vector<double>{5 * 2.5 + 1, 10}));
  EXPECT_EQ((eager * 2.0).value(), 6.0);
  if (kept < 6.0) other.problem.add_residual(kept);
  EXPECT_EQ(residuals(other.problem).back(), 5.0);
}

TEST(Tape, EndedProblemsLeaveNothingBehind) {
  Single other({1, 2, 3});
  const Value kept = other.p[0] + other.p[1];
  for (int k = 0; k < 1000; ++k) {
    Value stale;
    {
      Single single;
      stale = single.p[0] + kept;
      single.problem.add_residual(single.p[1] * single.p[2]);
    }
    EXPECT_THROW((void)(stale + 1.0), Error);
    other.problem.add_residual(kept - k);
  }
  EXPECT_LT(detail::tape.size, 100u);
  EXPECT_EQ(other.problem.topology_count(), 1u);
  EXPECT_EQ(residuals(other.problem)[999], 3.0 - 999.0);
}

TEST(Tape, AChainOfAMillionNodesIsOneResidual) {
  Single single({0.5, 0.0, 0.0});
  Value v = single.p[0];
  for (int k = 0; k < 1'000'000; ++k) v = v + single.p[1];
  single.problem.add_residual(v);
  EXPECT_EQ(residuals(single.problem), std::vector<double>{0.5});
  ProblemUse::settle_long_blocks(single.problem, true);
  EXPECT_EQ(single.problem.topology_count(), 1U);
  EXPECT_EQ(residuals(single.problem), std::vector<double>{0.5});
}

}  // namespace
}  // namespace topograd::test
