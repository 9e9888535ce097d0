// Ill-posed problems: they end with a reason, and the caller's parameters are the best accepted
// point.
#include "bad_input_cases.hpp"

#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace topograd::test {
namespace {

double cost_at(Problem& problem) { return Evaluator(problem, {.backend = Backend::cpu}).cost(); }

}  // namespace

void expect_rank_is_not_needed(const SolverOptions& base) {
  for (const Method method : {Method::levenberg_marquardt, Method::gauss_newton, Method::dogleg}) {
    for (const LinearSolver linear : {LinearSolver::automatic, LinearSolver::pcg,
                                      LinearSolver::cholesky, LinearSolver::dense}) {
      if (method == Method::dogleg && linear == LinearSolver::pcg) continue;  // one factorisation
      SCOPED_TRACE(std::string(name(method)) + " " + std::string(name(linear)));
      std::vector<double> x = {1, 5, 7};
      Problem problem;
      const Parameters p = problem.add_parameters(x);
      problem.add_residual(p[0] + p[1] - 3.0);
      problem.add_residual((p[0] + p[1]) * 2.0 - 6.0);  // redundant; p[2] is undetermined
      problem.add_residual(p[2] * 0.0);
      SolverOptions options = base;
      options.method = method;
      options.linear_solver = linear;
      const Summary summary = solve(problem, options);
      EXPECT_EQ(summary.backend, name(base.backend));
      EXPECT_TRUE(summary.is_solution_usable()) << summary.message;
      EXPECT_NE(summary.message, "");
      EXPECT_NEAR(x[0] + x[1], 3, 1e-6);
      EXPECT_EQ(x[2], 7);
      EXPECT_NEAR(cost_at(problem), summary.final_cost, 1e-12);
    }
  }
}

void expect_no_slope_is_an_answer(const SolverOptions& base) {
  std::vector<double> x = {0};
  Problem problem;
  problem.add_residual(square(problem.add_parameters(x)[0]) + 1.0);
  const Summary summary = solve(problem, base);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
  EXPECT_EQ(summary.message.rfind("gradient tolerance reached", 0), 0u) << summary.message;
  EXPECT_EQ(x[0], 0);
}

void expect_nonfinite_steps_are_refused(const SolverOptions& base) {
  std::vector<double> x = {1};
  Problem problem;
  // The minimum is at 0, where the slope is infinite; there is no value left of it.
  problem.add_residual(sqrt(problem.add_parameters(x)[0]) + 1.0);
  SolverOptions options = base;
  options.max_iterations = 100;
  const Summary summary = solve(problem, options);
  EXPECT_GE(summary.num_nonfinite_steps, 1) << summary.message;
  EXPECT_LT(summary.final_cost, summary.initial_cost);
  EXPECT_GE(x[0], 0);
  EXPECT_NEAR(cost_at(problem), summary.final_cost, 1e-12);
  for (const IterationSummary& i : summary.iterations) EXPECT_TRUE(std::isfinite(i.cost));
}

void expect_exceptions_leave_the_best_point(const SolverOptions& base) {
  const struct {
    Method method;
    LinearSolver linear;
    bool bounded = false;
    bool nonmonotonic = false;
  } rows[] = {{Method::levenberg_marquardt, LinearSolver::cholesky},
              {Method::levenberg_marquardt, LinearSolver::pcg},
              {Method::levenberg_marquardt, LinearSolver::pcg, true},
              {Method::levenberg_marquardt, LinearSolver::dense},
              {Method::levenberg_marquardt, LinearSolver::cholesky, false, true},
              {Method::levenberg_marquardt, LinearSolver::pcg, false, true},
              {Method::dogleg, LinearSolver::automatic, false, true},
              {Method::gauss_newton, LinearSolver::automatic},
              {Method::dogleg, LinearSolver::automatic},
              {Method::lbfgs, LinearSolver::automatic},
              {Method::newton, LinearSolver::cholesky},
              {Method::adam, LinearSolver::automatic},
              {Method::sgd, LinearSolver::automatic}};
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(name(row.method)) + " " + std::string(name(row.linear)));
    const auto run = [&](std::vector<double>& x, double& best, bool throws) {
      Problem problem;
      const Parameters p = problem.add_parameters(x);
      problem.add_residual(10.0 * (p[1] - square(p[0])));
      problem.add_residual(1.0 - p[0]);
      if (row.bounded) problem.set_upper_bound(p, 0, 0, 0.5);
      SolverOptions options = base;
      options.method = row.method;
      options.linear_solver = row.linear;
      options.use_nonmonotonic_steps = row.nonmonotonic;
      options.max_iterations = 12;
      options.initial_trust_region_radius = row.method == Method::dogleg ? 100 : 1e4;
      options.first_order.learning_rate = 1e-3;
      options.callback = [&](const IterationSummary& i) {
        best = i.iteration == 0 ? i.cost : std::min(best, i.cost);
        if (throws && i.iteration == 12) throw std::runtime_error("enough");
        return CallbackReturn::SOLVER_CONTINUE;
      };
      if (!throws) return void(solve(problem, options));
      EXPECT_THROW(solve(problem, options), std::runtime_error);
      EXPECT_NEAR(cost_at(problem), best, 1e-12 * best);
    };
    std::vector<double> thrown = {-1.2, 1}, ended = thrown;
    double best = 0;
    run(thrown, best, true);
    run(ended, best, false);
    EXPECT_EQ(thrown, ended);
    EXPECT_NE(thrown[0], -1.2);
  }
}

void expect_refusals_name_the_culprit(const SolverOptions& base) {
  std::vector<double> x = {1, 2, 3};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  struct Zero final : HostResidual {
    int rows() const override { return 1; }
    bool evaluate(const double* const*, double* r, double**) const override {
      r[0] = 0;
      return true;
    }
  };
  const struct {
    std::function<void()> call;
    const char* says;
  } rows[] = {
      {[&] { problem.add_parameters(x.data() + 1, 1); },
       "add_parameters: block 0 of the new array shares memory with block 1 of parameter array 0"},
      {[&] {
         Problem opaque;
         const Parameters q = opaque.add_parameters(x);
         opaque.add_residual(std::make_shared<Zero>(), {{q, 0}}, {.loss = {}, .label = "camera"});
         SolverOptions options = base;
         options.method = Method::newton;
         solve(opaque, options);
       },
       "solve: newton takes second derivatives, host residual \"camera\" #0 has none; use"},
      {[&] { problem.add_residual(p[0], {.loss = huber(-1), .label = {}}); }, "-1"},
      {[&] { problem.add_residual(p[0], {.loss = scaled(huber(1), -2), .label = {}}); },
       "scaled huber(1) loss: scale must be a finite number >= 0, got -2"},
      {[&] {
         problem.add_residual(p[0] - 1.0);
         problem.set_bounds(p, 1, 0, 3, 2);
         solve(problem, base);
       },
       "block 1, coordinate 0 has infeasible bounds [3, 2]"},
  };
  for (const auto& row : rows) {
    try {
      row.call();
      FAIL() << row.says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(row.says), std::string::npos) << error.what();
    }
    EXPECT_EQ(x, (std::vector<double>{1, 2, 3}));
  }
}

void expect_unread_blocks_are_reported(const SolverOptions& base) {
  std::vector<double> x = {1, 2, 3}, y = {4, 5};
  Problem problem;
  const Parameters p = problem.add_parameters(x), q = problem.add_parameters(y, 2);
  problem.add_residual(p[0] - 3.0);
  problem.add_residual(p[2] - 5.0);
  Solver solver(problem, base);
  const std::string report = solver.solve().full_report();
  EXPECT_NE(report.find("Blocks that nothing reads                         2\n"
                        "  parameter array 0, block 1\n"
                        "  parameter array 1, block 0\n"),
            std::string::npos)
      << report;
  EXPECT_EQ(y, (std::vector<double>{4, 5}));
  problem.add_residual(p[1] - q(0, 1));
  EXPECT_TRUE(solver.solve().unread_blocks.empty());
}

void expect_decreasing_losses_are_named(const SolverOptions& base) {
  const auto line = [](double slope) {
    return Loss::custom([slope](const Value& s) { return slope * s; }, "line");
  };
  const auto hump = [](double bend) {
    return Loss::custom([bend](const Value& s) { return s - bend * square(s); }, "hump");
  };
  const struct {
    Loss loss, good;
    double start;  // of the block's row; another row pulls it to 5 unless it is 0
    const char* says;
  } rows[] = {
      {line(-1), line(1), 2, ") has slope -1 at a squared norm of 4; expected a slope >= 0"},
      {line(-1), line(1), 0, ") has slope -1 at a squared norm of 0; expected a slope >= 0"},
      {hump(0.125), hump(0), 4, ") has slope -3 at a squared norm of 16; expected a slope >= 0"},
      {hump(0.125), hump(0), 0.5, ") has slope -"},  // after a step
  };
  const std::pair<Method, LinearSolver> solvers[] = {
      {Method::levenberg_marquardt, LinearSolver::automatic},
      {Method::levenberg_marquardt, LinearSolver::pcg},
      {Method::gauss_newton, LinearSolver::cholesky},
      {Method::dogleg, LinearSolver::automatic}};
  for (const auto& row : rows) {
    for (const auto& [method, linear] : solvers) {
      SCOPED_TRACE(row.says + std::string(name(method)) + " " + std::string(name(linear)));
      std::vector<double> x = {row.start};
      Problem problem;
      const Parameters p = problem.add_parameters(x);
      if (row.start != 0) problem.add_residual(10.0 * (p[0] - 5.0), {.loss = huber(1000)});
      problem.add_residual(p[0] * 1.0, {.loss = row.good, .label = "good"});
      problem.add_residual(p[0] * 1.0, {.loss = row.loss, .label = "bad"});
      SolverOptions options = base;
      options.method = method;
      options.linear_solver = linear;
      std::string text;
      try {
        const Summary summary = solve(problem, options);
        text = summary.message;
        EXPECT_EQ(summary.termination, Termination::FAILURE);
        EXPECT_GT(summary.num_successful_steps, 0);
        EXPECT_NE(x[0], row.start);
      } catch (const Error& error) {
        text = error.what();
        EXPECT_EQ(error.code(), ErrorCode::NonFinite);
        EXPECT_NE(row.start, 0.5);
        EXPECT_EQ(x[0], row.start);
      }
      const std::string culprit =
          "the loss \"" + row.loss.describe() + "\" of residual \"bad\" #1 (";
      EXPECT_NE(text.find(culprit), std::string::npos) << text;
      EXPECT_NE(text.find(row.says), std::string::npos) << text;
    }
  }
}

void expect_failed_factors_become_qr(const SolverOptions& base) {
  for (const Method method : {Method::gauss_newton, Method::levenberg_marquardt}) {
    SCOPED_TRACE(std::string(name(method)));
    std::vector<double> x = {1, 5, 7};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    problem.add_residual(p[0] + p[1] - 3.0);
    problem.add_residual(p[2] * 0.0 + exp(0.1 * (p[0] + p[1])) - std::exp(0.3));
    SolverOptions options = base;
    options.method = method;
    options.min_lm_diagonal = 0;  // the undetermined p[2] is undamped
    options.jacobi_scaling = false;
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.linear_solver, LinearSolver::dense) << summary.linear_solver_note;
    EXPECT_NE(summary.linear_solver_note.find("from step 1 on by QR of the Jacobian"),
              std::string::npos)
        << summary.linear_solver_note;
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_EQ(summary.num_unsuccessful_steps, 0);
    EXPECT_NEAR(x[0] + x[1], 3, 1e-6);
    EXPECT_EQ(x[2], 7);
  }
  std::vector<double> y = {1};
  Problem well_posed;
  well_posed.add_residual(well_posed.add_parameters(y)[0] - 3.0);
  EXPECT_NE(solve(well_posed, base).linear_solver, LinearSolver::dense);
}

}  // namespace topograd::test
