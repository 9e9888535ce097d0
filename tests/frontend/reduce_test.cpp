// Reductions over spans: values, shapes of their trees, derivatives, empty spans.
#include "../../frontend/value/reduce.hpp"
#include <gtest/gtest.h>
#include "../../frontend/value/eager.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "evaluated.hpp"
#include "reference.hpp"

namespace topograd::test {
namespace {

std::vector<Value> unknowns(const Parameters& x) {
  std::vector<Value> values;
  for (std::size_t k = 0; k < x.size(); ++k) values.push_back(x[k]);
  return values;
}

std::vector<Value> reductions(const Parameters& x) {
  const std::vector<Value> v = unknowns(x);
  return {sum(v), mean(v), min(v), max(v), norm(v)};
}

TEST(Reduce, IsTheSumMeanLeastGreatestAndNormOfAnyNumber) {
  for (std::size_t n = 1; n <= 33; ++n) {
    SCOPED_TRACE(n);
    Numbers x;
    for (std::size_t k = 0; k < n; ++k) x.push_back(std::sin(3.0 + 7.0 * static_cast<double>(k)));
    const long double total = std::accumulate(x.begin(), x.end(), 0.0L);
    const long double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0L);
    const Numbers rows = evaluate(x, reductions).rows;
    EXPECT_NEAR(rows[0], static_cast<double>(total), 1e-15 * n);
    EXPECT_NEAR(rows[1], static_cast<double>(total / n), 1e-15);
    EXPECT_EQ(rows[2], *std::min_element(x.begin(), x.end()));
    EXPECT_EQ(rows[3], *std::max_element(x.begin(), x.end()));
    EXPECT_NEAR(rows[4], static_cast<double>(std::sqrt(squares)), 2e-15);
    EXPECT_LT(difference_error(x, reductions), 1e-9);
  }
}

TEST(Reduce, TreesAreBalanced) {
  constexpr std::size_t kCount = 100000;
  Numbers x(kCount, 1.0);
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(sum(unknowns(p)));
  const ir::Program& program = problem.topology(0).program;
  EXPECT_EQ(ir::operation_count(program), kCount - 1);
  std::vector<int> depth(program.nodes.size());
  for (ir::Id id = 0; id < program.nodes.size(); ++id)
    for (const ir::Id operand : program.nodes[id].operands())
      depth[id] = std::max(depth[id], depth[operand] + 1);
  EXPECT_EQ(depth[program.outputs[0]], 17);  // 2^16 < 100000 <= 2^17
}

TEST(Reduce, TakesListsAndNumbers) {
  const Evaluated e = evaluate({3, 4}, [](const Parameters& x) {
    return std::vector{sum({x[0], x[1], 2.0}), mean({x[0], x[1]}), min({x[0], x[1]}),
                       max({x[0], x[1], 9.0}), norm({x[0], x[1]})};
  });
  EXPECT_EQ(e.rows, (Numbers{9, 3.5, 3, 9, 5}));
}

TEST(Reduce, TiesAreHalvedAndNormOfZeroHasDerivativeZero) {
  const Evaluated e = evaluate({0, 0, 0}, [](const Parameters& x) {
    const std::vector<Value> v = unknowns(x);
    return std::vector{min(v), max(v), norm(v)};
  });
  EXPECT_EQ(e.rows, (Numbers{0, 0, 0}));
  EXPECT_EQ(e.jacobian, (Numbers{0.25, 0.25, 0.5, 0.25, 0.25, 0.5, 0, 0, 0}));
  const Numbers with_nan = {1, NAN, 2};
  for (const double row : evaluate(with_nan, reductions).rows) EXPECT_TRUE(std::isnan(row));
}

TEST(Reduce, LogAddExpIsSmoothAndKeepsItsDigits) {
  const double inf = INFINITY, ln2 = std::log(2.0);
  struct Row {
    double a, b, y, by_a, by_b;
  };
  const Row rows[] = {
      {1.5, 1.5, 1.5 + ln2, 0.5, 0.5},
      {0, 1, std::log(1 + std::exp(1.0)), 1 / (1 + std::exp(1.0)), 1 / (1 + std::exp(-1.0))},
      {-700, 0, std::exp(-700.0), std::exp(-700.0), 1},
      {0, -40, std::exp(-40.0), 1, std::exp(-40.0)},
      {1e300, -1e300, 1e300, 1, 0},
      {1e300, 1e300, 1e300, 0.5, 0.5},
      {-inf, 3, 3, 0, 1},
      {inf, 3, inf, 1, 0},
      {inf, inf, inf, 0.5, 0.5},
      {-inf, -inf, -inf, 0.5, 0.5}};
  for (const Row& row : rows) {
    for (const bool swapped : {false, true}) {
      const Value a = variable(row.a), b = variable(row.b);
      const Value y = swapped ? logaddexp(b, a) : logaddexp(a, b);
      y.backward();
      const std::string at = std::to_string(row.a) + ", " + std::to_string(row.b);
      EXPECT_DOUBLE_EQ(y.value(), row.y) << at;
      EXPECT_DOUBLE_EQ(a.grad(), row.by_a) << at;
      EXPECT_DOUBLE_EQ(b.grad(), row.by_b) << at;
    }
  }
  EXPECT_TRUE(std::isnan(logaddexp(variable(NAN), variable(inf)).value()));
  EXPECT_TRUE(std::isnan(logaddexp(variable(1.0), variable(NAN)).value()));
}

TEST(Reduce, EmptySpansAreZeroOrAnError) {
  const std::span<const Value> none;
  Single single;
  single.problem.add_residual(single.p[0] + sum(none) + norm(none));
  EXPECT_EQ(residuals(single.problem)[0], 0.7);
  EXPECT_EQ(error_of([&] { mean(none); }), "shape: mean: expected at least one Value, got none");
  EXPECT_EQ(error_of([&] { min(none); }), "shape: min: expected at least one Value, got none");
  EXPECT_EQ(error_of([&] { max(none); }), "shape: max: expected at least one Value, got none");
}

}  // namespace
}  // namespace topograd::test
