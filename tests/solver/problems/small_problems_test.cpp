// Published minima of small problems: Moré, Garbow and Hillstrom.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <string>
#include <vector>

#include "../../../tools/problems/mgh.hpp"

namespace topograd {
namespace {

SolverOptions tight(LinearSolver solver) {
  return {.backend = Backend::cpu,
          .linear_solver = solver,
          .max_iterations = 10'000,
          .function_tolerance = 1e-14,
          .gradient_tolerance = 1e-14,
          .parameter_tolerance = 1e-14};
}

std::vector<double> minima_from_standard_start(const problems::MghProblem& row,
                                               LinearSolver solver) {
  // Every descent from the standard start leads to this local minimum.
  if (row.name == "freudenstein_roth") return {48.984254};
  // Two minima are published; inexact steps lead to either.
  if (row.name == "biggs_exp6" && solver == LinearSolver::pcg) return {0, 5.65565e-3};
  return row.minima;
}

TEST(SmallProblems, ReachThePublishedMinimum) {
  ASSERT_EQ(problems::mgh_problems().size(), 19u);
  for (const problems::MghProblem& row : problems::mgh_problems()) {
    for (const LinearSolver solver : {LinearSolver::cholesky, LinearSolver::pcg}) {
      SCOPED_TRACE(row.name + " by " + std::string(name(solver)));
      const auto mgh = problems::mgh(row);
      const Summary summary = solve(mgh->problem, tight(solver));
      EXPECT_TRUE(
          problems::is_mgh_minimum(summary.final_cost, minima_from_standard_start(row, solver)))
          << 2 * summary.final_cost << ": " << summary.message;
      // At minima where JᵀJ is singular, QR of the rows takes the factor's place.
      if (summary.linear_solver != LinearSolver::dense || solver != LinearSolver::cholesky) {
        EXPECT_EQ(summary.linear_solver, solver);
      }
      EXPECT_TRUE(summary.is_solution_usable());
    }
  }
}

TEST(SmallProblems, ReachThemFromFarStarts) {
  const struct {
    double factor;
    int solved;  // Ceres: 13 and 12; starts of 100 at which a column vanishes lose two
  } rows[] = {{10, 13}, {100, 10}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.factor);
    int solved = 0;
    for (const problems::MghProblem& problem : problems::mgh_problems()) {
      const auto mgh = problems::mgh(problem, row.factor);
      try {
        const Summary summary = solve(mgh->problem, tight(LinearSolver::automatic));
        solved += problems::is_mgh_minimum(summary.final_cost, problem.minima) ? 1 : 0;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::NonFinite) << problem.name;  // exp() overflows there
      }
    }
    EXPECT_GE(solved, row.solved);
  }
}

TEST(SmallProblems, GaussNewtonReachesThemToo) {
  for (const problems::MghProblem& row : problems::mgh_problems()) {
    if (row.name != "rosenbrock" && row.name != "bard" && row.name != "kowalik_osborne") continue;
    SCOPED_TRACE(row.name);
    const auto mgh = problems::mgh(row);
    SolverOptions options = tight(LinearSolver::automatic);
    options.method = Method::gauss_newton;
    const Summary summary = solve(mgh->problem, options);
    EXPECT_TRUE(problems::is_mgh_minimum(summary.final_cost, row.minima)) << summary.message;
  }
}

}  // namespace
}  // namespace topograd
