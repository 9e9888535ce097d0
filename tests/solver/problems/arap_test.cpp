// arap on spot: published initial cost and minimum, on the interpreter.
#include <gtest/gtest.h>

#include "../../../api/formats/mesh/mesh.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include "../../../tools/problems/arap.hpp"
#include "../../support/paths.hpp"

#include <map>

namespace topograd {
namespace {

constexpr double kSpotMinimum = 0.0762447949443;  // by Ceres, sparse Cholesky

std::unique_ptr<problems::Arap> spot() {
  return problems::arap(read_mesh(test::source_dir() / "samples/data/spot.obj"));
}

TEST(Arap, InitialCostOfSpot) {
  const auto arap = spot();
  Evaluator evaluator(arap->problem, {.backend = Backend::cpu});
  EXPECT_NEAR(evaluator.cost(), 3929.13617924, 1e-11 * 3929.13617924);
  EXPECT_EQ(arap->problem.parameter_count(), 17580u);
}

TEST(Arap, SpotByEitherLinearSolverWithDefaultTolerances) {
  for (const LinearSolver solver : {LinearSolver::pcg, LinearSolver::cholesky}) {
    SCOPED_TRACE(name(solver));
    const auto arap = spot();
    const Summary summary = solve(
        arap->problem, {.backend = Backend::cpu, .linear_solver = solver, .max_iterations = 100});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_LE(summary.final_cost, 0.076250);
    EXPECT_LE(summary.num_iterations(), 100);
    EXPECT_EQ(summary.linear_solver, solver);
  }
}

TEST(Arap, SpotToSixDigitsWithTightTolerances) {
  const auto arap = spot();
  const Summary summary = solve(arap->problem, {.backend = Backend::cpu,
                                                .max_iterations = 300,
                                                .function_tolerance = 1e-10,
                                                .gradient_tolerance = 1e-10,
                                                .parameter_tolerance = 1e-10});
  EXPECT_NEAR(summary.final_cost, kSpotMinimum, 1e-6 * kSpotMinimum) << summary.full_report();
  Evaluator evaluator(arap->problem, {.backend = Backend::cpu});
  EXPECT_NEAR(evaluator.cost(), summary.final_cost, 1e-12 * summary.final_cost);
}

TEST(Arap, PreconditionersLeadToTheSameMinimum) {
  SolverOptions options{.backend = Backend::cpu,
                        .linear_solver = LinearSolver::pcg,
                        .max_iterations = 100,
                        .function_tolerance = 1e-10,
                        .gradient_tolerance = 1e-10,
                        .parameter_tolerance = 1e-10,
                        .forcing_sequence = ForcingSequence::eisenstat_walker};
  std::map<Preconditioner, int> iterations;
  for (const runtime::PreconditionerRow& row : std::span(runtime::kPreconditioners).subspan(1)) {
    if (!row.on_cpu) continue;
    SCOPED_TRACE(row.name);
    options.preconditioner = row.value;
    const auto arap = spot();
    const Summary summary = solve(arap->problem, options);
    EXPECT_NEAR(summary.final_cost, kSpotMinimum, 1e-6 * kSpotMinimum) << summary.full_report();
    EXPECT_EQ(summary.preconditioner, row.value) << summary.preconditioner_note;
    iterations[row.value] = summary.num_linear_iterations;
  }
  EXPECT_LE(3 * iterations[Preconditioner::two_level], iterations[Preconditioner::block_jacobi]);
}

/// Far less work than any other choice: products with JᵀJ, each less than 2 million operations,
/// where a factor takes 430 million.
TEST(Arap, DefaultsTakeTwoLevelsToSixDigits) {
  const auto arap = spot();
  const Summary summary = solve(arap->problem, {.backend = Backend::cpu});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_EQ(summary.linear_solver, LinearSolver::pcg) << summary.linear_solver_note;
  EXPECT_NE(summary.linear_solver_note.find("a mesh"), std::string::npos)
      << summary.linear_solver_note;
  EXPECT_EQ(summary.preconditioner, Preconditioner::two_level) << summary.preconditioner_note;
  EXPECT_LE(summary.num_linear_iterations, 600);
  EXPECT_NEAR(summary.final_cost, kSpotMinimum, 1e-6 * kSpotMinimum);
}

TEST(Arap, MixedPrecisionEndsWhereF64Does) {
  const auto arap = spot();
  const Summary summary = solve(arap->problem, {.backend = Backend::cpu,
                                                .precision = Precision::mixed,
                                                .linear_solver = LinearSolver::pcg,
                                                .max_iterations = 300,
                                                .function_tolerance = 1e-10,
                                                .gradient_tolerance = 1e-10,
                                                .parameter_tolerance = 1e-10});
  EXPECT_NEAR(summary.final_cost, kSpotMinimum, 1e-6 * kSpotMinimum) << summary.full_report();
  EXPECT_EQ(summary.precision, Precision::mixed);
  Evaluator evaluator(arap->problem, {.backend = Backend::cpu});
  EXPECT_NEAR(evaluator.cost(), summary.final_cost, 1e-12 * summary.final_cost);
}

}  // namespace
}  // namespace topograd
