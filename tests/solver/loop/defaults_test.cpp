// Suitable defaults: small problems converge, solvers fit the problem, and reports give advice.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../frontend/vec.hpp"
#include "../../../ir/checking/random_program.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <sys/resource.h>

namespace topograd {
namespace {

TEST(Defaults, OneSpringBetweenFreePointsConverges) {
  ir::Random random(3);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<double> points(6);
    for (double& p : points) p = random.between(-3, 3);
    Problem problem;
    const Parameters x = problem.add_parameters(points, 3);
    problem.add_residual(norm(x.vec3(0) - x.vec3(1)) - 1.0);
    const Summary summary = solve(problem, {.backend = Backend::cpu});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_LE(summary.num_iterations(), 10);
    EXPECT_LT(summary.final_cost, 1e-16);
  }
}

/// A residual falls for ever and never arrives, beside others near 10⁷ whose rounding is no excuse:
/// its part of the cost, of at least ½, is far above it.
TEST(Defaults, ResidualsOfLargeCoordinatesHideNoSlope) {
  struct Row {
    const char* name;
    Value (*residual)(Value);
    double start;
  };
  const Row rows[] = {
      {"1 + 1 / x", [](Value x) { return 1.0 + 1.0 / x; }, 1e3},
      {"x / sqrt(1 + x²) - 2", [](Value x) { return x / sqrt(1.0 + x * x) - 2.0; }, 1},
  };
  for (const Row& row : rows) {
    for (const double shift : {0.0, 1e7}) {
      std::vector<double> x{row.start}, t{1};
      Problem problem;
      const Parameters slope = problem.add_parameters(x), near = problem.add_parameters(t);
      for (const double at : {0.9, 1.0, 1.1}) problem.add_residual(near[0] - (shift + at));
      problem.add_residual(row.residual(slope[0]));
      const Summary summary = solve(problem, {.backend = Backend::cpu, .max_iterations = 200});
      EXPECT_EQ(summary.termination, Termination::NO_CONVERGENCE)
          << row.name << ' ' << shift << ' ' << x[0] << ' ' << summary.message;
      EXPECT_NEAR(t[0], shift + 1, 1e-8 * (1 + shift));
    }
  }
}

/// Ropes of springs: one residual for two or three unknowns does not determine them.
TEST(Defaults, RopesOfSpringsConverge) {
  ir::Random random(5);
  for (std::size_t trial = 0; trial < 60; ++trial) {
    const std::size_t count = 5 + trial % 12;
    const std::uint32_t width = 2 + trial % 2;
    std::vector<double> points(width * count);
    for (double& p : points) p = random.between(-2, 2);
    const std::vector<double> start = points;
    for (const Bits bits : {Bits::native, Bits::portable}) {
      points = start;
      Problem problem;
      const Parameters x = problem.add_parameters(points, width);
      for (std::size_t k = 0; k + 1 < count; ++k)
        problem.add_residual(
            (width == 2 ? norm(x.vec2(k) - x.vec2(k + 1)) : norm(x.vec3(k) - x.vec3(k + 1))) - 1.0);
      const Summary summary = solve(problem, {.backend = Backend::cpu, .bits = bits});
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << trial << summary.message;
      EXPECT_LT(summary.final_cost, 1e-16) << trial;
      EXPECT_LE(summary.num_iterations(), 25) << trial;
    }
  }
}

/// A time step of cloth: inertia, bending springs, two fixed corners.
struct Cloth {
  static constexpr std::size_t kSide = 40;
  std::vector<double> points;
  Problem problem;

  Cloth() {
    for (std::size_t i = 0; i < kSide; ++i)
      for (std::size_t j = 0; j < kSide; ++j)
        points.insert(points.end(), {0.05 * static_cast<double>(i), 0.05 * static_cast<double>(j),
                                     0.01 * std::sin(3.0 * static_cast<double>(i + j))});
    const Parameters x = problem.add_parameters(points, 3);
    problem.set_constant(x, 0);
    problem.set_constant(x, kSide - 1);
    const std::vector<double> before = points;
    const auto at = [&](std::size_t k) {
      return Vec3{before[3 * k], before[3 * k + 1], before[3 * k + 2] - 0.01};
    };
    for (std::size_t k = 0; k < kSide * kSide; ++k) {
      const Vec3 d = x.vec3(k) - at(k);
      problem.add_energy(50.0 * dot(d, d));
    }
    const auto spring = [&](std::size_t a, std::size_t b) {
      problem.add_energy(2000.0 * square(norm(x.vec3(a) - x.vec3(b)) - 0.05));
    };
    for (std::size_t i = 0; i < kSide; ++i) {
      for (std::size_t j = 0; j < kSide; ++j) {
        if (i + 1 < kSide) spring(i * kSide + j, (i + 1) * kSide + j);
        if (j + 1 < kSide) spring(i * kSide + j, i * kSide + j + 1);
      }
    }
  }
};

/// Ceres scales a column by 1 / (1 + ‖J‖) and clamps the squares of scaled columns at 10⁻⁶ before
/// it divides them by the radius: the step of r = n (x − 1) from 0 with the radius 1 is n² / (n² +
/// 10⁻⁶ (1 + n)²).
TEST(Defaults, ScaledColumnsAreThoseOfCeres) {
  for (const bool bounded : {false, true}) {  // steps of the engine, and on the host
    for (const LinearSolver linear :
         {LinearSolver::cholesky, LinearSolver::dense, LinearSolver::pcg}) {
      const double n = 1e-3;
      std::vector<double> x = {0};
      Problem problem;
      const Parameters p = problem.add_parameters(x);
      problem.add_residual(n * (p[0] - 1.0));
      if (bounded) problem.set_bounds(p, 0, 0, -5, 5);
      SolverOptions options{.backend = Backend::cpu, .linear_solver = linear, .max_iterations = 1};
      options.initial_trust_region_radius = 1;
      options.scale_free = false;
      options.gradient_tolerance = 0;
      solve(problem, options);
      EXPECT_NEAR(x[0], n * n / (n * n + 1e-6 * (1 + n) * (1 + n)), 1e-9)
          << name(linear) << ", " << bounded;
    }
  }
}

TEST(Defaults, NewtonTakesProductsOnMeshes) {
  Cloth by_default, by_factor;
  const Summary summary =
      solve(by_default.problem, {.backend = Backend::cpu, .method = Method::newton});
  EXPECT_EQ(summary.linear_solver, LinearSolver::pcg) << summary.linear_solver_note;
  EXPECT_EQ(summary.unknowns, 4794u);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  const Summary factor = solve(
      by_factor.problem,
      {.backend = Backend::cpu, .method = Method::newton, .linear_solver = LinearSolver::cholesky});
  EXPECT_NEAR(summary.final_cost, factor.final_cost, 1e-4 * factor.final_cost);
}

TEST(Defaults, WarmUpsOfDescentsEnd) {
  for (const Method method : {Method::lbfgs, Method::newton, Method::adam}) {
    std::vector<double> x = {3, 5};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    problem.add_residual(p[0] * p[1] - 1.0);
    const WarmUp made = warm_up(problem, {.backend = Backend::cpu, .method = method});
    EXPECT_EQ(made.backend, "cpu") << name(method);
    EXPECT_EQ(x, (std::vector<double>{3, 5})) << name(method);
  }
}

TEST(Defaults, TheSecondSolveOfASolverTakesTheSame) {
  Cloth cloth;
  Solver solver(cloth.problem, {.backend = Backend::cpu, .method = Method::newton});
  const Summary first = solver.solve();
  EXPECT_EQ(solver.solve().linear_solver, first.linear_solver);
}

/// One residual that reads all unknowns: its part of a factor is full.
Summary solve_wide(std::size_t unknowns, LinearSolver solver) {
  std::vector<double> values(unknowns, 1.0);
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  Value sum = literal(0.0);
  for (std::size_t k = 0; k < unknowns; ++k) sum = sum + x[k];
  problem.add_residual(sum / literal(static_cast<double>(unknowns)) - 3.0);
  problem.add_residuals(unknowns, [&](Element e) { return e.scalar(x, 0) - 0.5; }, {.indices = [&] {
                          static std::vector<std::uint32_t> all;
                          all.resize(unknowns);
                          for (std::uint32_t k = 0; k < unknowns; ++k) all[k] = k;
                          return std::span<const std::uint32_t>(all);
                        }()});
  return solve(problem, {.backend = Backend::cpu, .linear_solver = solver});
}

TEST(Defaults, WideResidualsAreNotFactored) {
  const Summary summary = solve_wide(3'000, LinearSolver::automatic);
  EXPECT_EQ(summary.linear_solver, LinearSolver::pcg);
  EXPECT_EQ(summary.linear_solver_note.find("3000 unknowns: a residual reads 3e+03"), 0u)
      << summary.linear_solver_note;
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
}

TEST(Defaults, TheTimeOfAWideResidualGrowsWithItsWidth) {
  const Summary summary = solve_wide(100'000, LinearSolver::automatic);
  EXPECT_EQ(summary.linear_solver, LinearSolver::pcg);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
}

#if defined(__has_feature)
#define TG_HAS_FEATURE(x) __has_feature(x)
#else
#define TG_HAS_FEATURE(x) 0
#endif

TEST(Defaults, MemoryThatIsShortIsATypedError) {
#if defined(__SANITIZE_ADDRESS__) || TG_HAS_FEATURE(address_sanitizer)
  GTEST_SKIP() << "the address sanitizer reserves more memory than the limit";
#endif
  std::vector<std::string> said;
  const platform::ChildEnd end = platform::run_child(
      [](const auto& say) {
        constexpr rlim_t kBytes = 1'500'000'000;  // the factor alone takes twice as much
        const rlimit limit{kBytes, kBytes};
        if (::setrlimit(RLIMIT_AS, &limit) != 0) return say("no limit");
        try {
          solve_wide(20'000, LinearSolver::cholesky);
          say("solved");
        } catch (const Error& error) {
          say(std::string(name(error.code())));
          say(error.what());
        }
      },
      [&](const std::string& line) { said.push_back(line); }, 120);
  EXPECT_EQ(end.status, 0);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0], "out_of_host_memory");
  EXPECT_NE(said[1].find("residuals that read up to 20000 of them"), std::string::npos) << said[1];
}

TEST(Defaults, AReportSaysWhatToDoAtTheLimitOfSteps) {
  const auto history = [](std::vector<double> costs, double gain, Method method) {
    Summary summary;
    summary.termination = Termination::NO_CONVERGENCE;
    summary.method = method;
    for (const double cost : costs) {
      summary.iterations.push_back({.cost = cost, .relative_decrease = gain});
      summary.num_successful_steps += cost == costs.front() ? 0 : 1;
    }
    return summary;
  };
  using Row = std::pair<Summary, Advice>;
  const Row rows[] = {
      {history({8, 4, 2, 1}, 1, Method::levenberg_marquardt), Advice::more_steps},
      {history({8, 7.99999, 7.99998}, 1, Method::levenberg_marquardt), Advice::looser_tolerance},
      {history({8, 4, 2, 1}, 0.1, Method::levenberg_marquardt), Advice::second_derivatives},
      {history({8, 4, 2, 1}, 0, Method::lbfgs), Advice::other_method},
      {history({8, 4, 2, 1}, 0, Method::newton), Advice::more_steps},
      {history({8, 7.99999, 7.99998}, 0, Method::newton), Advice::good_enough},
      {history({8}, 0, Method::newton), Advice::none},
      {history({8, 4, 2, 1}, 0.1, Method::augmented_lagrangian), Advice::none},
  };
  for (const auto& [summary, advice] : rows) EXPECT_EQ(advise(summary), advice);
  // Advice does not repeat the present choice.
  EXPECT_EQ(text(Advice::good_enough).find("newton"), std::string_view::npos);
  Summary on_host = history({8, 7.99999, 7.99998}, 0, Method::levenberg_marquardt);
  on_host.host_residuals = 1;
  EXPECT_EQ(advise(on_host), Advice::good_enough);
  Summary converged = history({8, 4, 2, 1}, 1, Method::levenberg_marquardt);
  converged.termination = Termination::CONVERGENCE;
  EXPECT_EQ(advise(converged), Advice::none);

  std::vector<double> x = {-1.2, 1};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(10.0 * (p[1] - p[0] * p[0]));
  problem.add_residual(1.0 - p[0]);
  const Summary summary = solve(problem, {.backend = Backend::cpu, .max_iterations = 3});
  EXPECT_NE(summary.advice, Advice::none);
  EXPECT_NE(summary.full_report().find("Advice: "), std::string::npos);
}

}  // namespace
}  // namespace topograd
