// solve(): errors by their text, fixed parameters, and when results are written back.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <functional>
#include <limits>
#include <regex>
#include <stdexcept>

namespace topograd {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const SolverOptions kCpu = {.backend = Backend::cpu};

/// Rosenbrock's valley, from the usual start.
struct Valley {
  std::vector<double> x = {-1.2, 1};
  Problem problem;
  Parameters parameters = problem.add_parameters(x);
  Valley() {
    problem.add_residual(10.0 * (parameters[1] - square(parameters[0])), {.label = "valley"});
    problem.add_residual(1.0 - parameters[0], {.label = "wall"});
  }
};

void expect_error(const std::function<void()>& call, ErrorCode code, const std::string& pattern) {
  try {
    call();
    FAIL() << "no error; expected " << pattern;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_TRUE(std::regex_match(error.what(), std::regex(pattern))) << error.what();
  }
}

TEST(Solve, EmptyProblems) {
  Problem nothing;
  expect_error([&] { solve(nothing, kCpu); }, ErrorCode::EmptyProblem,
               "solve: the problem has no parameters");
  std::vector<double> x = {1};
  nothing.add_parameters(x);
  expect_error([&] { solve(nothing, kCpu); }, ErrorCode::EmptyProblem,
               "solve: the problem has no residuals");
  EXPECT_EQ(x[0], 1);
}

TEST(Solve, NonfiniteStartValueIsNamed) {
  Valley v;
  std::vector<double> more = {1, 2, 3, kNan, 5, 6};
  const Parameters y = v.problem.add_parameters(more, 3);
  v.problem.add_residual(y.vec3(1) - y.vec3(0));
  expect_error([&] { solve(v.problem, kCpu); }, ErrorCode::NonFinite,
               "solve: parameter array 1, block 1, coordinate 0 is nan at the start; expected a "
               "finite number");
  EXPECT_EQ(v.x, (std::vector<double>{-1.2, 1}));
}

TEST(Solve, NonfiniteResidualIsNamedWithItsOp) {
  std::vector<double> x = {4, 9, -1, 16};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (std::size_t k = 0; k < x.size(); ++k) {
    problem.add_residual(sqrt(p[k]) - 1.0, {.label = k == 2 ? "bad one" : "fine"});
  }
  expect_error([&] { solve(problem, kCpu); }, ErrorCode::NonFinite,
               "solve: residual \"bad one\" #2 \\(topology [0-9a-f]{32}\\) is nan: sqrt\\(-1\\) is "
               "nan");
  EXPECT_EQ(x, (std::vector<double>{4, 9, -1, 16}));
}

TEST(Solve, NonfiniteDerivativeIsNamed) {
  std::vector<double> x = {1, 0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (std::size_t k = 0; k < x.size(); ++k) problem.add_residual(sqrt(p[k]) + 1.0);
  expect_error([&] { solve(problem, kCpu); }, ErrorCode::NonFinite,
               "solve: the derivative of residual \"residual0\" #1 \\(topology [0-9a-f]{32}\\) by "
               "parameter array 0, block 1, coordinate 0 is inf: div\\(0.5, 0\\) is inf");
}

TEST(Solve, OptionsOutOfRange) {
  Valley v;
  expect_error([&] { solve(v.problem, {.backend = Backend::cpu, .max_iterations = -3}); },
               ErrorCode::InvalidArgument,
               "options: max_iterations must be a finite number >= 0, got -3");
}

TEST(Solve, WritesTheMinimumBack) {
  Valley v;
  const Summary summary = solve(v.problem, kCpu);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
  EXPECT_NEAR(v.x[0], 1, 1e-6);
  EXPECT_NEAR(v.x[1], 1, 1e-6);
  EXPECT_EQ(summary.unknowns, 2u);
  EXPECT_EQ(summary.residuals, 2u);
  EXPECT_EQ(summary.backend, "cpu");
  EXPECT_EQ(summary.why, "asked for");
  EXPECT_GT(summary.kernels_on_cpu, 0u);
  EXPECT_EQ(summary.kernels_on_device, 0u);
  EXPECT_EQ(summary.topologies.size(), 2u);
  EXPECT_EQ(summary.initial_cost, summary.iterations.front().cost);
  EXPECT_EQ(summary.final_cost, summary.iterations.back().cost);
}

TEST(Solve, SmallProblemsStayOnTheCpuUnderAutomatic) {
  const ProcessDefaults before = process_defaults();
  set_process_defaults({});  // TOPOGRAD_BACKEND defines automatic
  Valley v;
  const Summary summary =
      solve(v.problem, {.backend = Backend::automatic, .fallback_threshold = 3});
  set_process_defaults(before);
  EXPECT_EQ(summary.backend, "cpu");
  EXPECT_EQ(summary.why, "cpu: 2 instances are below the threshold of 3");
}

TEST(Solve, MemoryIsWrittenOnceAtTheEnd) {
  Valley v;
  int calls = 0;
  const Summary summary =
      solve(v.problem, {.backend = Backend::cpu, .callback = [&](const IterationSummary&) {
                          ++calls;
                          EXPECT_EQ(v.x, (std::vector<double>{-1.2, 1}));
                          return CallbackReturn::SOLVER_CONTINUE;
                        }});
  EXPECT_EQ(calls, summary.num_iterations() + 1);
  EXPECT_NE(v.x, (std::vector<double>{-1.2, 1}));
}

TEST(Solve, AThrowingCallbackLeavesTheBestAcceptedPoint) {
  Valley v;
  double held = 0;
  EXPECT_THROW(solve(v.problem, {.backend = Backend::cpu,
                                 .callback = [&](const IterationSummary& i) -> CallbackReturn {
                                   held = i.cost;
                                   if (i.iteration == 5) throw std::runtime_error("enough");
                                   return CallbackReturn::SOLVER_CONTINUE;
                                 }}),
               std::runtime_error);
  const Summary after = solve(v.problem, {.backend = Backend::cpu, .max_iterations = 0});
  EXPECT_DOUBLE_EQ(after.initial_cost, held);
  EXPECT_LT(held, 24.2 / 2);
}

TEST(Solve, StoppedByACallback) {
  Valley v;
  const Summary summary =
      solve(v.problem, {.backend = Backend::cpu, .callback = [](const IterationSummary& i) {
                          return i.iteration < 3 ? CallbackReturn::SOLVER_CONTINUE
                                                 : CallbackReturn::SOLVER_ABORT;
                        }});
  EXPECT_EQ(summary.termination, Termination::USER_FAILURE);
  EXPECT_EQ(summary.num_iterations(), 3);
}

TEST(Solve, ConstantScalarsKeepTheirBits) {
  for (const LinearSolver solver : {LinearSolver::pcg, LinearSolver::cholesky}) {
    for (const Precision precision : {Precision::f64, Precision::f32}) {
      SCOPED_TRACE(std::string(name(solver)) + " " + std::string(codegen::name(precision)));
      Valley v;
      v.x = {-1.2, 0.1};  // 0.1 is not a float
      v.problem.set_constant(v.parameters, 1);
      const Summary summary = solve(
          v.problem, {.backend = Backend::cpu, .precision = precision, .linear_solver = solver});
      EXPECT_EQ(v.x[1], 0.1);
      EXPECT_EQ(summary.unknowns, 1u);
      // 100 (0.1 - x²)² + (1 - x)² has one minimum for x > 0: 400 x³ - 38 x = 2 (1 - x) there.
      EXPECT_NEAR(400 * v.x[0] * v.x[0] * v.x[0] - 40 * v.x[0], 2 - 2 * v.x[0], 2e-2);
    }
  }
}

TEST(Solve, EverythingConstantConvergesAtOnce) {
  for (const LinearSolver solver : {LinearSolver::automatic, LinearSolver::cholesky}) {
    Valley v;
    v.problem.set_constant(v.parameters, 0);
    v.problem.set_constant(v.parameters, 1);
    const Summary summary = solve(v.problem, {.backend = Backend::cpu, .linear_solver = solver});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
    EXPECT_EQ(summary.num_iterations(), 0);
    EXPECT_EQ(v.x, (std::vector<double>{-1.2, 1}));
  }
}

TEST(Solve, ABlockThatIsUsedNowhereStays) {
  Valley v;
  std::vector<double> unused = {7, 8, 9};
  v.problem.add_parameters(unused, 3);
  for (const LinearSolver solver : {LinearSolver::pcg, LinearSolver::cholesky}) {
    v.x = {-1.2, 1};
    const Summary summary = solve(v.problem, {.backend = Backend::cpu, .linear_solver = solver});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
    EXPECT_NEAR(v.x[0], 1, 1e-6);
    EXPECT_EQ(unused, (std::vector<double>{7, 8, 9}));
  }
}

TEST(Solve, NonfiniteTrialsAreRejected) {
  // log has no value left of 0; the first full step from 5 leads there: x - r r' / r'^2 = 5 - 5 log
  // 5.
  std::vector<double> x = {5};
  Problem problem;
  problem.add_residual(log(problem.add_parameters(x)[0]));
  const Summary summary = solve(problem, kCpu);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_GE(summary.num_nonfinite_steps, 1);
  EXPECT_NEAR(x[0], 1, 1e-6);
}

}  // namespace
}  // namespace topograd
