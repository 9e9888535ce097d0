// Constraints in problem files.
#include "../../api/problem_file.hpp"
#include "../../ir/error.hpp"
#include "../../solver/solve.hpp"
#include "../support/paths.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace topograd::test {
namespace {

TEST(ConstrainedFile, IsSolved) {
  const std::string path =
      (source_dir() / "tests/fuzz/corpus/problem_file/constraints.json").string();
  const auto file = read_problem_file(path);
  EXPECT_EQ(file->problem.constraint_count(), 3u);
  EXPECT_EQ(file->residuals.size(), 1u);
  const Summary s = solve(file->problem, file->options);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  const std::vector<double>& p = file->parameters.at(0).values;
  EXPECT_NEAR(p.at(0), 0.6, 1e-8);  // (3, 4) on the unit circle
  EXPECT_NEAR(p.at(1), 0.8, 1e-8);
  EXPECT_NEAR(p.at(2), 0.7, 1e-8);  // 0.5 is left of its bound
  EXPECT_NEAR(p.at(3), 0.2, 1e-8);
  ASSERT_EQ(s.constrained.constraints.size(), 2u);
  EXPECT_EQ(s.constrained.constraints[0].label, "circle");
  EXPECT_EQ(s.constrained.constraints[1].label, "right");
  EXPECT_EQ(s.constrained.constraints[1].active, 1u);
}

TEST(ConstrainedFile, TakesTheBarrier) {
  const auto file = parse_problem_file(
      R"({"parameters": [{"name": "p", "values": [0, -1]}],
          "residuals": [{"expressions": ["p - 3"], "parameters": ["p"]}],
          "inequalities": [{"expressions": ["c - p"], "parameters": ["p"], "data": {"c": [1, 5]}}],
          "solver": {"method": "barrier", "initial_barrier": 0.5}})",
      "file.json");
  const Summary s = solve(file->problem, file->options);
  ASSERT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_EQ(s.method, Method::barrier);
  const std::vector<double>& p = file->parameters.at(0).values;
  EXPECT_NEAR(p.at(0), 1, 1e-8);
  EXPECT_LT(p.at(0), 1);
  EXPECT_NEAR(p.at(1), 3, 1e-8);
}

TEST(ConstrainedFile, HasNoWeightsAndLosses) {
  for (const std::string key : {R"("weight": 2)", R"("loss": {"huber": 1})"}) {
    const std::string text =
        R"({"parameters": [{"name": "p", "values": [1]}],
            "residuals": [{"expressions": ["p"], "parameters": ["p"]}],
            "equalities": [{"expressions": ["p - 1"], "parameters": ["p"], )" +
        key + "}]}";
    try {
      parse_problem_file(text, "file.json");
      FAIL() << "expected an error for " << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Parse);
      EXPECT_NE(std::string(error.what()).find("equalities"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace topograd::test
