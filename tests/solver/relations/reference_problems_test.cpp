// Reference problems in other forms: multiplying all residuals or any unknown by 10^±12 changes no
// decision of a solve; other orders and companions change neither verdict nor optimum.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"
#include "../../support/judge.hpp"
#include "disguise.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/mesh.hpp"
#include "../../../tools/problems/mgh.hpp"
#include "../../../tools/problems/nist.hpp"
#include "../../../tools/problems/smooth.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/paths.hpp"

namespace topograd {
namespace {

using test::Disguise;
using test::Disguised;

std::vector<Disguise> units_of(std::size_t unknowns) {
  std::vector<Disguise> all;
  for (const double factor : {1e12, 1e-12}) {
    const std::string text = factor > 1 ? " 1e12" : " 1e-12";
    all.push_back({.name = "residuals" + text, .residuals = factor});
    all.push_back({.name = "unknowns" + text, .unit = [=](std::size_t) { return factor; }});
    for (std::size_t one = 0; one < std::min<std::size_t>(unknowns, 4); ++one)
      all.push_back({.name = "unknown " + std::to_string(one) + text,
                     .unit = [=](std::size_t k) { return k == one ? factor : 1; }});
  }
  return all;
}

std::vector<Disguise> companions() {
  return {{.name = "other order", .other_order = true},
          {.name = "twice with half the weight", .twice = true},
          {.name = "an unread unknown", .has_unread = true},
          {.name = "NaN with weight 0", .has_no_weight = true},
          {.name = "bounds that do not bind", .has_slack_bounds = true}};
}

/// Steps and reason for the end. (A last step that gains less than rounding is left out, because
/// rounding decides on it.)
std::string decisions(const Summary& summary) {
  return std::to_string(summary.num_iterations()) + " steps, " +
         summary.message.substr(0, summary.message.find(':'));
}

void expect_same_end(Disguised& other, const Disguise& as, const SolverOptions& options,
                     const Summary& expected, double tolerance) {
  const Summary summary = solve(other.problem(), options);
  // Rounding decides how many steps there are among costs that are rounding.
  const bool units = !as.other_order && !as.twice && !as.has_slack_bounds;
  if (units && expected.final_cost > 1e-20 * expected.initial_cost) {
    EXPECT_EQ(decisions(summary), decisions(expected)) << summary.message;
  }
  EXPECT_EQ(summary.termination, expected.termination) << summary.message;
  if (!as.has_no_weight) {
    EXPECT_EQ(test::contradiction(other.problem(), options, summary), "") << summary.message;
  }
  const double square = as.residuals * as.residuals;
  EXPECT_NEAR(summary.final_cost / square, expected.final_cost,
              tolerance * expected.final_cost + 1e-20 * expected.initial_cost);
}

void expect_same_decisions(const Problem& problem, const SolverOptions& options) {
  Disguised plain(problem, {});
  const Summary expected = solve(plain.problem(), options);
  EXPECT_EQ(test::contradiction(plain.problem(), options, expected), "") << expected.message;
  for (const Disguise& as : units_of(problem.parameter_count())) {
    SCOPED_TRACE(as.name);
    Disguised other(problem, as);
    expect_same_end(other, as, options, expected, 1e-6);
  }
  for (const Disguise& as : companions()) {
    // Steps within bounds are searched along their projections: they go another way.
    if (as.has_slack_bounds) continue;
    SCOPED_TRACE(as.name);
    Disguised other(problem, as);
    expect_same_end(other, as, options, expected, 1e-3);
  }
}

TEST(Units, ChangeNoDecisionOnNistSets) {
  for (const std::string& file : problems::nist_files(test::source_dir() / "tests/data/nist")) {
    const problems::NistSet set = problems::read_nist(file);
    for (std::size_t start = 0; start < 2; ++start) {
      SCOPED_TRACE(set.name + " from start " + std::to_string(start + 1));
      expect_same_decisions(problems::nist(set, start)->problem, {.backend = Backend::cpu});
    }
  }
}

TEST(Units, ChangeNoDecisionOnSmallProblems) {
  for (const problems::MghProblem& row : problems::mgh_problems()) {
    SCOPED_TRACE(row.name);
    expect_same_decisions(problems::mgh(row)->problem, {.backend = Backend::cpu});
  }
}

TEST(Units, ChangeNoDecisionOnMeshes) {
  problems::TriangleMesh mesh = problems::icosphere(1);
  problems::perturb(mesh.positions, 1e-3, 7);
  const auto smooth = problems::smooth(mesh);
  for (const LinearSolver solver : {LinearSolver::cholesky, LinearSolver::pcg}) {
    SCOPED_TRACE(name(solver));
    expect_same_decisions(smooth->problem, {.backend = Backend::cpu, .linear_solver = solver});
  }
}

TEST(Units, ChangeNoVerdictOnScenes) {
  const auto scene =
      problems::bundle({.cameras = 4, .points = 30, .observations = 100, .noise = 0.5});
  const SolverOptions options = {.backend = Backend::cpu, .max_iterations = 100};
  Disguised plain(scene->problem, {});
  const Summary expected = solve(plain.problem(), options);
  EXPECT_EQ(expected.termination, Termination::CONVERGENCE) << expected.message;
  for (const Disguise& as : companions()) {
    SCOPED_TRACE(as.name);
    Disguised other(scene->problem, as);
    expect_same_end(other, as, options, expected, 1e-3);
  }
}

}  // namespace
}  // namespace topograd
