// Callables of maps that count their calls.
#include "../../frontend/loss.hpp"
#include "../../frontend/manifold.hpp"
#include "../../frontend/problem.hpp"
#include "../../frontend/value/math.hpp"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "reference.hpp"

namespace topograd::test {
namespace {

TEST(Map, ACallableThatCountsIsAnError) {
  std::vector<double> values = {1, 2, 3};
  const std::vector<double> y = {4, 5, 6, 7, 8, 9};
  const std::vector<std::uint32_t> indices = {0, 1, 2};
  const MapOptions options = {.indices = indices, .label = "point"};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const std::string begin =
      "add_residuals: expected a callable that gives the same each time that it is called for an "
      "element, got ";
  const std::string end =
      "; it runs once for all elements, so that what it counts or draws is the same in all of "
      "them: give each element's numbers in MapOptions::data and read them by e.data(k), its "
      "indices in MapOptions::indices, by e.index(k), in residual \"point\" #0";
  std::size_t k = 0;
  const auto counts = [&](Element e) { return e.scalar(x, 0) - y[k++]; };
  EXPECT_EQ(error_of([&] { problem.add_residuals(3, counts, options); }),
            "invalid_argument: " + begin + "the number 4 and then 5" + end);
  k = 0;
  const auto reads = [&](Element) { return square(x[k++]); };
  EXPECT_EQ(error_of([&] { problem.add_residuals(3, reads, options); }),
            "invalid_argument: " + begin + "another expression the second time" + end);
  k = 0;
  const auto structure = [&](Element e) { return e.scalar(x, 0) - literal(y[k++]); };
  EXPECT_EQ(error_of([&] { problem.add_residuals(3, structure, options); }),
            "invalid_argument: " + begin + "the number 4 and then 5" + end);
  k = 2;
  const auto powers = [&](Element e) { return pow(e.scalar(x, 0), static_cast<int>(k++)); };
  EXPECT_EQ(error_of([&] { problem.add_residuals(3, powers, options); }),
            "invalid_argument: " + begin + "another expression the second time" + end);
  const std::vector<Value> made = {x[0], x[1], x[2]};
  k = 0;
  const auto captured = [&](Element) { return square(made[k++]); };
  EXPECT_EQ(error_of([&] { problem.add_residuals(3, captured, options); }),
            "invalid_argument: " + begin + "another expression the second time" + end);
  EXPECT_EQ(problem.residual_count(), 0u);
  // A call stands for one element.
  k = 0;
  problem.add_residuals(1, counts, {.indices = std::span(indices).first(1)});
  EXPECT_EQ(k, 1u);
  EXPECT_EQ(residuals(problem), std::vector<double>{-3});
  // A count is allowed if the expression does not depend on it.
  int calls = 0;
  problem.add_residuals(
      3, [&](Element e) { return ++calls, e.scalar(x, 0) * 1.0; }, options);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(residuals(problem), (std::vector<double>{-3, 1, 2, 3}));
}

TEST(Map, LossesAndManifoldsThatCountAreErrors) {
  double scale = 1;
  const auto once = [](const std::string& call, const std::string& numbers, const std::string& one,
                       const std::string& all, const std::string& advice) {
    return "invalid_argument: " + call +
           ": expected a callable that gives the same each time that it is called for " + one +
           ", got the number " + numbers + "; it runs once for " + all +
           ", so that what it counts or draws is the same in all of them: " + advice;
  };
  EXPECT_EQ(error_of([&] { Loss::custom([&](const Value& s) { return log(1.0 + s / scale++); }); }),
            once("custom loss", "1 and then 2", "a residual", "all residuals",
                 "make a loss for each number"));
  scale = 1;
  EXPECT_EQ(error_of([&] {
              Manifold::custom(1, 1, [&](std::span<const Value> x, std::span<const Value> d) {
                return std::vector<Value>{x[0] + literal(scale++) * d[0]};
              });
            }),
            once("custom manifold", "1 and then 2", "a block", "all blocks",
                 "make a manifold for each number"));
}

}  // namespace
}  // namespace topograd::test
