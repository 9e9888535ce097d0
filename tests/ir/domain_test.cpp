// Operands moved into their domains, and detection of operands outside them.
#include "../../ir/evaluate.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/text.hpp"
#include "../../ir/verify.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace topograd::test {
namespace {

using ir::Program;

Program two_parameters(const std::string& body) {
  return ir::parse(
      "program parameters=2 data=0 uniforms=0 seeds=0 {\n%0 = parameter 0\n%1 = parameter 1\n" +
      body + "\n}");
}

TEST(GuardDomains, MovesOperandsInside) {
  constexpr double e = 1e-3;
  const struct {
    const char* body;
    double x, y, expected;
  } rows[] = {
      {"%2 = sqrt %0\nreturn %2", -1, 0, std::sqrt(e)},
      {"%2 = sqrt %0\nreturn %2", 4, 0, 2},
      {"%2 = log %0\nreturn %2", 0, 0, std::log(e)},
      {"%2 = log1p %0\nreturn %2", -2, 0, std::log1p(-1 + e)},
      {"%2 = rsqrt %0\nreturn %2", 0, 0, 1 / std::sqrt(e)},
      {"%2 = acos %0\nreturn %2", 1, 0, std::acos(1 - e)},
      {"%2 = acos %0\nreturn %2", -3, 0, std::acos(-1 + e)},
      {"%2 = acosh %0\nreturn %2", 1, 0, std::acosh(1 + e)},
      {"%2 = div %0, %1\nreturn %2", 1, 0, 1 / e},
      {"%2 = div %0, %1\nreturn %2", 1, -1e-9, -1 / e},
      {"%2 = div %0, %1\nreturn %2", 1, -4, -0.25},
      {"%2 = reciprocal %0\nreturn %2", 0, 0, 1 / e},
      {"%2 = exp %0\nreturn %2", 1, 0, std::exp(1.0)},
  };
  for (const auto& row : rows) {
    const Program guarded = ir::guard_domains(two_parameters(row.body), e);
    EXPECT_EQ(ir::violation(guarded), std::nullopt);
    const double at[] = {row.x, row.y};
    EXPECT_DOUBLE_EQ(ir::evaluate<double>(guarded, {.parameters = at})[0], row.expected)
        << row.body << " at " << row.x << ", " << row.y;
  }
}

TEST(DomainErrors, NamesTheFirstNode) {
  const struct {
    const char* body;
    double x, y, expected;
  } rows[] = {
      {"%2 = sqrt %0\n%3 = log %1\n%4 = add %2, %3\nreturn %4", 1, 1, -1},
      {"%2 = sqrt %0\n%3 = log %1\n%4 = add %2, %3\nreturn %4", -1, 0, 2},
      {"%2 = sqrt %0\n%3 = log %1\n%4 = add %2, %3\nreturn %4", 0, 0, 3},
      {"%2 = div %0, %1\nreturn %2", 1, 0, 2},
      {"%2 = div %0, %1\nreturn %2", 0, -0.0, 2},
      {"%2 = reciprocal %0\nreturn %2", 1e-300, 0, -1},
      {"%2 = acos %0\nreturn %2", 1, 0, -1},
      {"%2 = acos %0\nreturn %2", 1.5, 0, 2},
      {"%2 = atanh %0\nreturn %2", 1, 0, 2},
      {"%2 = pow %0, %1\nreturn %2", -2, 3, -1},
      {"%2 = pow %0, %1\nreturn %2", -2, 0.5, 2},
      {"%2 = acosh %0\nreturn %2", std::nan(""), 0, -1},
      // A side that is not taken does not count, unless it has another user.
      {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2\nreturn %5", -1, 0,
       -1},
      {"%2 = literal 0\n%3 = gt %1, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2\nreturn %5", -1, 1, 4},
      {"%2 = literal 0\n%3 = lt %0, %2\n%4 = sqrt %0\n%5 = select %3, %2, %4\nreturn %5", -1, 0,
       -1},
      {"%2 = literal 0\n%3 = gt %1, %2\n%4 = sqrt %0\n%5 = select %3, %2, %4\nreturn %5", -1, -1,
       4},
      {"%2 = literal 0\n%3 = gt %0, %2\n%4 = sqrt %0\n%5 = select %3, %4, %2\nreturn %5, %4", -1, 0,
       4},
  };
  for (const auto& row : rows) {
    const Program errors = ir::domain_errors(two_parameters(row.body));
    EXPECT_EQ(ir::violation(errors), std::nullopt);
    const double at[] = {row.x, row.y};
    EXPECT_EQ(ir::evaluate<double>(errors, {.parameters = at})[0], row.expected)
        << row.body << " at " << row.x << ", " << row.y;
  }
}

}  // namespace
}  // namespace topograd::test
