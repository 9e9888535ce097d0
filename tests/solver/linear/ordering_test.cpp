// Elimination groups of the caller: eliminated blocks and errors.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace topograd {
namespace {

/// Lines and the abscissae at which all of them were read: lines meet only points.
struct Readings {
  static constexpr std::size_t kLines = 3, kPoints = 12;

  Readings() {
    for (std::size_t k = 0; k < kPoints; ++k) {
      const auto at = static_cast<double>(k);
      for (std::size_t c = 0; c < kLines; ++c) {
        const auto number = static_cast<double>(c);
        const double seen = (1 + 0.5 * number) * at - 0.3 * number + 0.01 * std::sin(7 * at);
        problem.add_residual(line(c, 0) * point[k] + line(c, 1) - seen, {.label = "reading"});
      }
      if (k % 7 == 0) problem.add_residual(point[k] - at);
    }
  }
  Summary solve_with(const std::vector<OrderedParameters>& ordering,
                     LinearSolver linear = LinearSolver::schur) {
    return solve(problem, {.backend = Backend::cpu,
                           .linear_solver = linear,
                           .function_tolerance = 1e-14,
                           .linear_solver_ordering = ordering});
  }

  std::vector<double> lines = {1, 0, 1, 0, 1, 0}, points = std::vector<double>(kPoints, 0.5);
  Problem problem;
  Parameters line = problem.add_parameters(lines, 2), point = problem.add_parameters(points);
};

bool says(const Summary& summary, const char* text) {
  return summary.linear_solver_note.find(text) != std::string::npos;
}

TEST(LinearSolverOrdering, TheFirstGroupIsEliminated) {
  Readings found, points, lines, one, rest;
  const Summary want = found.solve_with({});
  EXPECT_TRUE(says(want, "asked for; 12 blocks eliminated, 6 unknowns remain"))
      << want.linear_solver_note;
  const Summary first = points.solve_with({{points.point, 0}, {points.line, 1}});
  EXPECT_TRUE(says(first, "asked for in the order given; 12 blocks eliminated, 6 unknowns remain"))
      << first.linear_solver_note;
  EXPECT_NEAR(first.final_cost, want.final_cost, 1e-9 * want.final_cost);
  const Summary other =
      lines.solve_with({{lines.point, 7}, {lines.line, 3}}, LinearSolver::automatic);
  EXPECT_EQ(other.linear_solver, LinearSolver::schur);
  EXPECT_TRUE(says(other, "3 blocks eliminated, 12 unknowns remain")) << other.linear_solver_note;
  EXPECT_NEAR(other.final_cost, want.final_cost, 1e-9 * want.final_cost);
  // One group is no order; blocks without a group come last.
  EXPECT_TRUE(says(one.solve_with({{one.point, 0}, {one.line, 0}}), "asked for; 12 blocks"));
  const Summary few = rest.solve_with({{rest.point, 1}, {rest.point, 0, 4}, {rest.point, 0, 5}});
  EXPECT_TRUE(says(few, "2 blocks eliminated, 16 unknowns remain")) << few.linear_solver_note;
  EXPECT_NEAR(few.final_cost, want.final_cost, 1e-9 * want.final_cost);
}

TEST(LinearSolverOrdering, HoldsForStepsOnTheHost) {
  Readings plain, ordered;
  for (Readings* r : {&plain, &ordered}) r->problem.set_bounds(r->line, 0, 0, 0.5, 1.2);
  const Summary want = plain.solve_with({}, LinearSolver::cholesky);
  const Summary got =
      ordered.solve_with({{ordered.line, 0}, {ordered.point, 1}}, LinearSolver::automatic);
  EXPECT_EQ(got.linear_solver, LinearSolver::schur) << got.linear_solver_note;
  EXPECT_NEAR(got.final_cost, want.final_cost, 1e-8 * want.final_cost);
}

TEST(LinearSolverOrdering, CallsParametersByTheirNames) {
  std::vector<double> times = {1, 2}, scale = {1};
  Problem problem;
  const Parameters tau = problem.add_parameters(times, 1, "tau");
  const Parameters s = problem.add_parameters(scale, 1, "scale");
  for (std::size_t k = 0; k < 2; ++k) problem.add_residual(tau[k] * s[0] - 1.0);
  const struct {
    std::vector<OrderedParameters> ordering;
    const char* text;
  } rows[] = {
      {{{tau, 0}, {s, 0}, {tau, 1, 0}}, "parameter \"tau\", block 1 and parameter \"scale\" do"},
      {{{tau, -1, 1}}, "the group of parameter \"tau\", block 1 must be >= 0, got -1"},
      {{{tau, 0, 7}}, "parameter \"tau\""},
  };
  for (const LinearSolver solver : {LinearSolver::schur, LinearSolver::automatic}) {
    for (const auto& row : rows) {
      try {
        solve(problem, {.backend = Backend::cpu,
                        .linear_solver = solver,
                        .linear_solver_ordering = row.ordering});
        FAIL() << row.text;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(row.text), std::string::npos) << error.what();
      }
    }
  }
}

TEST(LinearSolverOrdering, IsRefusedWhereBlocksMeet) {
  Readings r, other;
  const struct {
    std::vector<OrderedParameters> ordering;
    const char* text;
  } rows[] = {
      {{{r.point, 0}, {r.line, 0, 1}},
       "invalid_argument: linear_solver_ordering: expected a first group of which no two blocks "
       "meet "
       "in a residual, but parameter array 0, block 1 and parameter array 1, block 0 do"},
      {{{r.point, -1}},
       "invalid_argument: linear_solver_ordering: the group of parameter array 1, block 0 must be "
       ">= 0, got -1"},
      {{{r.point, 0, 12}},
       "invalid_argument: linear_solver_ordering: block 12 is out of range (the array has 12)"},
      {{{other.point, 0}},
       "wrong_problem: linear_solver_ordering: the parameter array is not part of this problem"},
  };
  for (const auto& row : rows) {
    try {
      r.solve_with(row.ordering);
      FAIL() << row.text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(name(error.code())) + ": " + error.what(), row.text);
    }
    EXPECT_EQ(r.points[3], 0.5);
  }
  // A fixed block has no neighbours.
  r.problem.set_constant(r.line, 1);
  EXPECT_TRUE(says(r.solve_with({{r.point, 0}, {r.line, 0, 1}}), "12 blocks eliminated"));
}

}  // namespace
}  // namespace topograd
