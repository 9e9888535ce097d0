// Published minima of small problems: Moré, Garbow and Hillstrom; NIST.
#include <gtest/gtest.h>

#include <topograd/frontend/math.hpp>
#include <topograd/solver/solve.hpp>

#include <algorithm>
#include <cmath>

#include "mgh_problems.hpp"
#include "problem_files.hpp"
#include "support/paths.hpp"

namespace topograd {
namespace {

SolverOptions tight(LinearSolver solver) {
  return {.backend = Backend::cpu,
          .linear_solver = solver,
          .max_iterations = 1000,
          .function_tolerance = 1e-14,
          .gradient_tolerance = 1e-14,
          .parameter_tolerance = 1e-14};
}

TEST(SmallProblems, ReachThePublishedMinimum) {
  for (const test::MghProblem& row : test::mgh_problems()) {
    for (const LinearSolver solver : {LinearSolver::cholesky, LinearSolver::pcg}) {
      SCOPED_TRACE(row.name + " by " + std::string(name(solver)));
      std::vector<double> x = row.start;
      Problem problem;
      row.build(problem, problem.add_parameters(x));
      const Summary summary = solve(problem, tight(solver));
      const double scale = row.minimum == 0 ? 1 : row.minimum;
      EXPECT_NEAR(2 * summary.final_cost, row.minimum, 1e-4 * scale) << summary.message;
      EXPECT_EQ(summary.linear_solver, solver);
      EXPECT_TRUE(summary.is_solution_usable());
    }
  }
}

TEST(SmallProblems, GaussNewtonReachesThemToo) {
  for (const test::MghProblem& row : test::mgh_problems()) {
    if (row.name != "rosenbrock" && row.name != "bard" && row.name != "kowalik_osborne") continue;
    SCOPED_TRACE(row.name);
    std::vector<double> x = row.start;
    Problem problem;
    row.build(problem, problem.add_parameters(x));
    SolverOptions options = tight(LinearSolver::automatic);
    options.method = Method::gauss_newton;
    const Summary summary = solve(problem, options);
    EXPECT_NEAR(2 * summary.final_cost, row.minimum, 1e-4 * std::max(row.minimum, 1e-8));
  }
}

Value misra1a(const Parameters& b, double x) { return b[0] * (1.0 - exp(-b[1] * x)); }
Value thurber(const Parameters& b, double x) {
  return (b[0] + b[1] * x + b[2] * (x * x) + b[3] * (x * x * x)) /
         (1.0 + b[4] * x + b[5] * (x * x) + b[6] * (x * x * x));
}

TEST(SmallProblems, NistParametersToSixDigits) {
  const struct {
    const char* file;
    Value (*model)(const Parameters&, double);
  } rows[] = {{"Misra1a.dat", misra1a}, {"Thurber.dat", thurber}};
  for (const auto& row : rows) {
    const test::NistSet set = test::read_nist(test::source_dir() / "tests/data/nist" / row.file);
    ASSERT_FALSE(set.certified.empty());
    for (int start = 0; start < 2; ++start) {
      SCOPED_TRACE(std::string(row.file) + " from start " + std::to_string(start + 1));
      std::vector<double> b = set.starts[static_cast<std::size_t>(start)];
      Problem problem;
      const Parameters parameters = problem.add_parameters(b);
      for (std::size_t i = 0; i < set.y.size(); ++i) {
        problem.add_residual(row.model(parameters, set.x[i]) - set.y[i]);
      }
      EXPECT_EQ(problem.topology_count(), 1u);
      const Summary summary = solve(problem, tight(LinearSolver::automatic));
      EXPECT_NEAR(2 * summary.final_cost, set.certified_cost, 1e-9 * set.certified_cost);
      for (std::size_t k = 0; k < b.size(); ++k) {
        EXPECT_NEAR(b[k], set.certified[k], 1e-6 * std::abs(set.certified[k])) << "b" << k + 1;
      }
    }
  }
}

}  // namespace
}  // namespace topograd
