// The tape: how long handles keep their nodes, and that everything else is recycled.
#include <gtest/gtest.h>

#include <thread>

#include "frontend/reference.hpp"

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

TEST(Tape, AChainOfAMillionNodesIsOneResidual) {
  Single single({0.5, 0.0, 0.0});
  Value v = single.p[0];
  for (int k = 0; k < 1'000'000; ++k) v = v + single.p[1];
  single.problem.add_residual(v);
  EXPECT_EQ(residuals(single.problem), std::vector<double>{0.5});
}

}  // namespace
}  // namespace topograd::test
