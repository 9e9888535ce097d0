// Derivatives at kinks, poles and sides that are not taken.
#include <gtest/gtest.h>
#include "../../autodiff/derivatives.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/text.hpp"

#include <cmath>
#include <limits>

#include "../support/random_program.hpp"

namespace topograd::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  const char* body;   // nodes after x = %0 and y = %1; the last one is the residual
  double x, y;        // point
  double by_x, by_y;  // expected
};

// Every row is checked in the Jacobian, in reverse mode with a seed and in forward mode with a
// tangent.
const Row kRows[] = {
    // Kinks.
    {"%2 = abs %0", 0, 0, 0, 0},
    {"%2 = abs %0", -0.0, 0, 0, 0},
    {"%2 = abs %0", -2, 0, -1, 0},
    {"%2 = relu %0", 0, 0, 0, 0},
    {"%2 = relu %0", 1e-300, 0, 1, 0},
    {"%2 = min %0, %1", 3, 3, 0.5, 0.5},
    {"%2 = min %0, %1", 4, 3, 0, 1},
    {"%2 = max %0, %1", 3, 3, 0.5, 0.5},
    {"%2 = max %0, %1", 4, 5, 0, 1},
    {"%2 = max %0, %1", kNan, 5, 0, 1},
    {"%2 = clamp %0, %1, %1", 4, 4, 0.25, 0.75},  // min(max(x, y), y): halves of halves
    // Sums of them that are smooth, and have the derivative of the smooth function.
    {"%2 = max %0, %1\n%3 = min %0, %1\n%4 = add %2, %3", 3, 3, 1, 1},
    {"%2 = literal 0\n%3 = max %0, %2\n%4 = min %0, %2\n%5 = add %3, %4", 0, 0, 1, 0},
    {"%2 = literal 0\n%3 = max %0, %2\n%4 = abs %0\n%5 = neg %4\n%6 = exp %5\n%7 = log1p %6\n"
     "%8 = add %3, %7",
     0, 0, 0.5, 0},
    {"%2 = max %0, %1\n%3 = sub %0, %1\n%4 = abs %3\n%5 = neg %4\n%6 = exp %5\n%7 = log1p %6\n"
     "%8 = add %2, %7",
     1.5, 1.5, 0.5, 0.5},
    {"%2 = max %0, %1\n%3 = sub %0, %2\n%4 = exp %3\n%5 = sub %1, %2\n%6 = exp %5\n"
     "%7 = add %4, %6\n%8 = log %7\n%9 = add %2, %8",
     -7, -7, 0.5, 0.5},
    // Roots of what is never negative have derivative 0 at 0, like lengths.
    {"%2 = square %0\n%3 = sqrt %2", 0, 0, 0, 0},
    {"%2 = square %0\n%3 = sqrt %2", -3, 0, -1, 0},
    {"%2 = square %0\n%3 = square %1\n%4 = add %2, %3\n%5 = sqrt %4", 0, 0, 0, 0},
    {"%2 = square %0\n%3 = square %1\n%4 = add %2, %3\n%5 = sqrt %4", 3, -4, 0.6, -0.8},
    {"%2 = exp %0\n%3 = sqrt %2", -1400, 0, 0, 0},
    {"%2 = exp %0\n%3 = sqrt %2", -4, 0, 0.067667641618306351, 0},  // exp(-2) / 2
    {"%2 = abs %0\n%3 = sqrt %2", 0, 0, 0, 0},
    // A zero derivative meets an infinite one.
    {"%2 = square %0\n%3 = cbrt %2", 0, 0, 0, 0},
    {"%2 = cos %0\n%3 = acos %2", 0, 0, 0, 0},
    {"%2 = cos %0\n%3 = asin %2", 0, 0, 0, 0},
    {"%2 = cosh %0\n%3 = acosh %2", 0, 0, 0, 0},
    {"%2 = square %0\n%3 = literal 0.25\n%4 = pow %2, %3", 0, 0, 0, 0},
    {"%2 = mul %0, %1\n%3 = sqrt %2", 0, 0, 0, 0},
    {"%2 = mul %0, %1\n%3 = sqrt %2", 0, 2, kInf, 0},
    {"%2 = square %0\n%3 = mul %2, %1\n%4 = sqrt %3", 0, 2, 0, 0},
    {"%2 = square %0\n%3 = mul %2, %1\n%4 = sqrt %3\n%5 = cbrt %4", 0, 2, 0, 0},
    // Squares that leave the range: derivatives by closed forms.
    {"%2 = atan2 %0, %1", 3e200, 4e200, 4. / 25e200, -3. / 25e200},
    {"%2 = atan2 %0, %1", -3e-200, 4e-200, 4. / 25e-200, 3. / 25e-200},
    {"%2 = atan2 %0, %1", 1, 1e-200, 1e-200, -1},
    {"%2 = atan2 %0, %1", 1e300, 1, 0, -1e-300},
    {"%2 = asinh %0", 1e200, 0, 1e-200, 0},
    {"%2 = asinh %0", -1e160, 0, 1e-160, 0},
    {"%2 = acosh %0", 1e200, 0, 1e-200, 0},
    {"%2 = acosh %0", 1.25, 0, 4. / 3, 0},
    {"%2 = sign %0", 0, 0, 0, 0},
    {"%2 = floor %0", 1, 0, 0, 0},
    {"%2 = ceil %0", 1, 0, 0, 0},
    {"%2 = round %0", 0.5, 0, 0, 0},
    {"%2 = trunc %0", 2, 0, 0, 0},
    {"%2 = fract %0", 2, 0, 1, 0},
    {"%2 = lt %0, %1", 1, 1, 0, 0},
    {"%2 = mod %0, %1", 7, 2, 1, -3},
    {"%2 = mod %0, %1", -7, 2, 1, 4},
    {"%2 = mod %0, %1", 6, 2, 1, -3},
    // Poles and points outside of the domain keep the mathematical value.
    {"%2 = sqrt %0", 0, 0, kInf, 0},
    {"%2 = cbrt %0", 0, 0, kInf, 0},
    {"%2 = log %0", 0, 0, kInf, 0},
    {"%2 = asin %0", 1, 0, kInf, 0},
    {"%2 = acos %0", 1, 0, -kInf, 0},
    {"%2 = sqrt %0", -1, 0, kNan, 0},
    {"%2 = pow %0, %1", 0, 2, 0, 0},
    {"%2 = pow %0, %1", 0, 1, 1, 0},
    {"%2 = pow %0, %1", 0, 0.5, kInf, 0},
    {"%2 = pow %0, %1", 2, 0, 0, std::log(2.0)},
    {"%2 = pow %0, %1", -2, 3, 12, kNan},
    {"%2 = atan2 %0, %1", 0, 0, 0, 0},
    {"%2 = atan2 %0, %1", 0, -1, -1, 0},
    {"%2 = hypot %0, %1", 0, 0, 0, 0},
    {"%2 = hypot %0, %1", 0, -2, 0, -1},
    // Sides that are not taken.
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2", -1, 0, 0, 0},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2", 0, 0, 0, 0},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2", 4, 0, 0.25, 0},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = div %1, %0\n%5 = select %3, %4, %1", 0, 3, 0, 1},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = log %0\n%5 = select %3, %4, %1", 0, 3, 0, 1},
    {"%2 = literal 1\n%3 = lt %0, %2\n%4 = exp %0\n%5 = mul %4, %1\n%6 = select %3, %5, %1", 1000,
     3, 0, 1},
    {"%2 = literal 1\n%3 = lt %0, %2\n%4 = exp %0\n%5 = square %4\n%6 = select %3, %5, %1", 1000, 3,
     0, 1},
    {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = mul %4, %4\n%6 = cube %5\n%7 = select %3, "
     "%6, %0",
     -1, 0, 1, 0},
    {"%2 = square %0\n%3 = square %1\n%4 = add %2, %3\n%5 = sqrt %4\n%6 = literal 0\n%7 = gt %4, "
     "%6\n%8 = select %7, %5, %6",
     0, 0, 0, 0},
    {"%2 = sqrt %0\n%3 = max %2, %1\n%4 = literal -5\n%5 = max %1, %4", -1, 2, 0, 1},
    {"%2 = sqrt %0\n%3 = min %2, %1", 4, 1, 0, 1},
    {"%2 = sqrt %0\n%3 = min %2, %1", 0, -1, 0, 1},
    {"%2 = sqrt %0\n%3 = abs %2", 0, 0, 0, 0},
    // A zero adjoint meets an infinite derivative without any branch.
    {"%2 = sqrt %0\n%3 = mul %0, %2", 0, 0, 0, 0},
    {"%2 = exp %0\n%3 = tanh %2", 1000, 0, 0, 0},
    {"%2 = neg %0\n%3 = exp %2\n%4 = literal 1\n%5 = add %3, %4\n%6 = reciprocal %5", -1000, 0, 0,
     0},
    {"%2 = exp %0\n%3 = square %1\n%4 = literal 1\n%5 = add %3, %4\n%6 = div %2, %5\n"
     "%7 = mul %6, %1\n%8 = tanh %7",
     1000, 2, 0, 0},
    {"%2 = sigmoid %0", -1000, 0, 0, 0},
    {"%2 = silu %0", -1000, 0, 0, 0},
    {"%2 = softplus %0", -1000, 0, 0, 0},
    {"%2 = softplus %0", 1000, 0, 1, 0},
    {"%2 = softplus %0", 0, 0, 0.5, 0},  // the logistic function at 0
    {"%2 = silu %0", -kInf, 0, 0, 0},
    {"%2 = silu %0", kInf, 0, 1, 0},
    {"%2 = silu %0", 0, 0, 0.5, 0},
    {"%2 = silu %0", -700, 0, -6.89191390408807982884e-302, 0},  // (1 + x) exp(x), to all digits
    {"%2 = gelu %0", -kInf, 0, 0, 0},
    {"%2 = gelu %0", kInf, 0, 1, 0},
    {"%2 = gelu %0", 0, 0, 0.5, 0},
    {"%2 = gelu %0", -8, 0, -3.97960726108679598912e-14, 0},
    {"%2 = sigmoid %0", -kInf, 0, 0, 0},
    {"%2 = sigmoid %0", kInf, 0, 0, 0},
    {"%2 = normal_cdf %0", -kInf, 0, 0, 0},
    {"%2 = normal_cdf %0", 0, 0, 0.39894228040143268, 0},  // 1 / sqrt(2 pi)
    {"%2 = reciprocal %0\n%3 = atan %2", 0, 0, 0, 0},
    {"%2 = literal 2\n%3 = elu %0, %2", 1000, 0, 1, 0},
};

ir::Program program_of(const Row& row) {
  const std::string body = row.body;
  const std::size_t last = body.rfind("\n%") == body.npos ? 0 : body.rfind("\n%") + 1;
  const std::string result = body.substr(last, body.find(' ', last) - last);
  return ir::parse(
      "program parameters=2 data=0 uniforms=0 seeds=0 {\n%0 = parameter 0\n"
      "%1 = parameter 1\n" +
      body + "\nreturn " + result + "\n}");
}

void expect_equal(double got, double expected, const std::string& where) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << where << ": got " << got;
  } else if (std::isinf(expected) || expected == 0) {
    EXPECT_EQ(got, expected) << where;
  } else {
    EXPECT_NEAR(got, expected, 1e-14 * std::fabs(expected)) << where;
  }
}

TEST(Kinks, FollowTheRules) {
  for (const Row& row : kRows) {
    const ir::Program f = program_of(row);
    const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
    const std::vector<double> at = {row.x, row.y}, one = {1};
    const std::string where =
        std::string(row.body) + " at " + std::to_string(row.x) + ", " + std::to_string(row.y);
    const auto J = ir::evaluate<double>(autodiff::jacobian(f, slots), {.parameters = at});
    const auto pulled =
        ir::evaluate<double>(autodiff::vjp(f, slots), {.parameters = at, .seeds = one});
    for (int k = 0; k < 2; ++k) {
      const double expected = k == 0 ? row.by_x : row.by_y;
      const std::vector<double> unit = {k == 0 ? 1.0 : 0.0, k == 0 ? 0.0 : 1.0};
      const auto pushed =
          ir::evaluate<double>(autodiff::jvp(f), {.parameters = at, .tangents = unit});
      expect_equal(J[k], expected, where + ", jacobian");
      expect_equal(pulled[k], expected, where + ", vjp");
      expect_equal(pushed[0], expected, where + ", jvp");
    }
  }
}

TEST(Kinks, ZeroSeedsAndTangentsGiveZero) {
  const std::vector<double> zero = {0}, zeros = {0, 0};
  for (const Row& row : kRows) {
    const ir::Program f = program_of(row);
    const std::vector<double> at = {row.x, row.y};
    if (!std::isfinite(ir::evaluate<double>(f, {.parameters = at})[0])) continue;
    const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
    const auto pulled =
        ir::evaluate<double>(autodiff::vjp(f, slots), {.parameters = at, .seeds = zero});
    const auto pushed =
        ir::evaluate<double>(autodiff::jvp(f), {.parameters = at, .tangents = zeros});
    EXPECT_EQ(pulled[0], 0) << row.body << " at " << row.x;
    EXPECT_EQ(pulled[1], 0) << row.body << " at " << row.x;
    EXPECT_EQ(pushed[0], 0) << row.body << " at " << row.x;
  }
}

}  // namespace
}  // namespace topograd::test
