// Callables of maps that remember how often they ran.
#include "../../frontend/problem.hpp"

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
  EXPECT_EQ(problem.residual_count(), 0u);
  // One element is what one call means.
  k = 0;
  problem.add_residuals(1, counts, {.indices = std::span(indices).first(1)});
  EXPECT_EQ(k, 1u);
  EXPECT_EQ(residuals(problem), std::vector<double>{-3});
  // Without such numbers it runs once; a count that the expression does not depend on is its own.
  int calls = 0, twice = 0;
  problem.add_residuals(
      3, [&](Element e) { return ++calls, e.scalar(x, 0); }, options);
  EXPECT_EQ(calls, 1);
  problem.add_residuals(
      3, [&](Element e) { return ++twice, e.scalar(x, 0) * 1.0; }, options);
  EXPECT_EQ(twice, 2);
  EXPECT_EQ(residuals(problem), (std::vector<double>{-3, 1, 2, 3, 1, 2, 3}));
}

}  // namespace
}  // namespace topograd::test
