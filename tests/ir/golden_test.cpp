// Text files of programs with the results of the printer, the parser and each pass.
#include "../support/golden.hpp"

#include "../../ir/passes/passes.hpp"
#include "../../ir/text.hpp"

#include <gtest/gtest.h>

namespace topograd::test {
namespace {

using ir::Program;

struct PassCases {
  const char* file;
  Program (*pass)(const Program&);
};

constexpr PassCases kPasses[] = {
    {"parse", [](const Program& p) { return p; }},
    {"expand", ir::expand},
    {"finish", ir::finish},
    {"fold", ir::fold},
    {"simplify_arithmetic", ir::simplify},
    {"simplify_logic", ir::simplify},
    {"simplify_kept", ir::simplify},
    {"remove_dead", ir::remove_dead},
    {"schedule", ir::schedule},
    {"optimize", ir::optimize},
};

TEST(GoldenPrograms, EachPass) {
  for (const PassCases& row : kPasses) {
    SCOPED_TRACE(row.file);
    expect_golden_cases(
        std::string("tests/ir/golden/") + row.file + ".txt",
        [&](const std::string& input) { return print(row.pass(ir::parse(input))); });
  }
}

TEST(GoldenPrograms, Dot) {
  expect_golden_cases("tests/ir/golden/dot.txt", [](const std::string& input) {
    return print_dot(ir::parse(input), "a \"title\"");
  });
}

}  // namespace
}  // namespace topograd::test
