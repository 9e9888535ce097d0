// Times of passes on the CPU: they add up, calls are counted, and nothing is timed unasked.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/summary.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../../../tools/problems/springs.hpp"

namespace topograd {
namespace {

using runtime::KernelTime;
using runtime::TimedWork;

SolverOptions profiled() {
  return {.backend = Backend::cpu,
          .linear_solver = LinearSolver::pcg,
          .max_iterations = 8,
          .rescale_steps = false,
          .profile = true};
}

std::uint64_t calls_of(const Summary& summary, std::string_view name) {
  const auto found = std::ranges::find(summary.kernels, name, &KernelTime::name);
  return found == summary.kernels.end() ? 0 : found->calls;
}

double sum_of(const Summary& summary) {
  double us = 0;
  for (const KernelTime& one : summary.kernels) us += one.us;
  return us;
}

TEST(Profile, TimesOfPassesAddUpToTheSteps) {
  double best = 0;
  for (int run = 0; run < 3 && best < 0.95; ++run) {  // the machine may be busy
    const auto springs = problems::springs(50);
    const Summary summary = solve(springs->problem, profiled());
    ASSERT_TRUE(summary.profile.measured);
    EXPECT_NEAR(sum_of(summary), summary.profile.step_us, 1e-6 * summary.profile.step_us);
    double steps = 0;
    for (const IterationSummary& one : summary.iterations)
      if (one.iteration > 0) steps += one.iteration_time_in_seconds;
    EXPECT_GE(summary.profile.step_us, 1e6 * steps);
    EXPECT_LE(summary.profile.step_us, 1e6 * summary.times.total_seconds);
    EXPECT_TRUE(std::ranges::is_sorted(summary.kernels, std::greater<>(), &KernelTime::us));
    best = std::max(best, explained_share(summary));
  }
  EXPECT_GE(best, 0.95);
}

TEST(Profile, CallsAreThoseOfTheMethod) {
  const auto springs = problems::springs(20);
  const Summary summary = solve(springs->problem, profiled());
  const auto steps = static_cast<std::uint64_t>(summary.num_iterations());
  const auto points = static_cast<std::uint64_t>(summary.num_successful_steps) + 1;
  EXPECT_EQ(calls_of(summary, "linear_solve"), steps);
  EXPECT_EQ(calls_of(summary, "conjugate_gradients"), steps);
  EXPECT_EQ(calls_of(summary, "trial_point"), steps);
  // The end is looked at once more, for unknowns without a derivative.
  EXPECT_EQ(calls_of(summary, "spring_stored_jacobian"), points + 1);
  EXPECT_EQ(calls_of(summary, "anchor_stored_jacobian"), points + 1);
  EXPECT_EQ(calls_of(summary, "spring_residual"), steps);
  for (const KernelTime& one : summary.kernels) {
    EXPECT_EQ(one.work, one.name == "solver" ? TimedWork::rest : TimedWork::cpu) << one.name;
    EXPECT_EQ(one.topology.size(),
              one.name.starts_with("spring_") || one.name.starts_with("anchor_") ? 32u : 0u)
        << one.name;
    EXPECT_GE(one.us, 0) << one.name;
    EXPECT_GT(one.calls, 0u) << one.name;
  }
  // A spring has a rest length of 8 bytes and two indices of 4; its residual is not stored.
  const auto residual = std::ranges::find(summary.kernels, "spring_residual", &KernelTime::name);
  const auto springs_of = std::ranges::find(summary.topologies, "spring", &TopologySummary::name);
  EXPECT_EQ(residual->bytes, steps * springs_of->instances * (8 + 2 * 4));
}

TEST(Profile, NothingIsTimedUnasked) {
  SolverOptions options = profiled();
  const auto timed = problems::springs(20), plain = problems::springs(20);
  const Summary with = solve(timed->problem, options);
  options.profile = false;
  const Summary without = solve(plain->problem, options);
  EXPECT_EQ(with.final_cost, without.final_cost);
  EXPECT_FALSE(without.profile.measured);
  EXPECT_TRUE(without.kernels.empty());
  EXPECT_EQ(profile_table(without), "");
  const auto json = nlohmann::json::parse(to_json(without));
  EXPECT_FALSE(json.contains("kernels"));
  EXPECT_FALSE(json.contains("profile"));
}

TEST(Profile, JsonHasARowForEachKernel) {
  const auto springs = problems::springs(20);
  const Summary summary = solve(springs->problem, profiled());
  const auto json = nlohmann::json::parse(to_json(summary));
  for (const char* key : {"step_s", "explained", "copy_rate", "note", "events", "events_left_out"})
    EXPECT_TRUE(json.at("profile").contains(key)) << key;
  ASSERT_EQ(json.at("kernels").size(), summary.kernels.size());
  double share = 0;
  for (const auto& row : json.at("kernels")) {
    for (const char* key : {"name", "topology", "on", "calls", "us", "longest_us", "share_of_steps",
                            "bytes", "share_of_copy_rate", "predicted_us"})
      EXPECT_TRUE(row.contains(key)) << key;
    share += row.at("share_of_steps").get<double>();
  }
  EXPECT_NEAR(share, 1, 1e-6);
  EXPECT_GT(json.at("profile").at("copy_rate").get<double>(), 0);
  EXPECT_NE(profile_table(summary).find("spring_stored_jacobian"), std::string::npos);
}

TEST(Profile, EventsLieWithinTheSolve) {
  const auto springs = problems::springs(20);
  const Summary summary = solve(springs->problem, profiled());
  ASSERT_FALSE(summary.profile.events.empty());
  for (const runtime::ProfileEvent& event : summary.profile.events) {
    ASSERT_LT(event.row, summary.kernels.size());
    EXPECT_GE(event.begin_us, 0);
    EXPECT_GE(event.us, 0);
    EXPECT_LE(event.begin_us + event.us, 1e6 * summary.times.total_seconds);
  }
}

TEST(Profile, ASolveWithoutStepsHasItsFirstPoint) {
  const auto springs = problems::springs(5);
  SolverOptions options = profiled();
  options.max_iterations = 0;
  const Summary summary = solve(springs->problem, options);
  EXPECT_TRUE(summary.profile.measured);
  EXPECT_EQ(calls_of(summary, "spring_stored_jacobian"), 1u);
  EXPECT_EQ(calls_of(summary, "linear_solve"), 0u);
}

TEST(Profile, EverySolverNamesItsWork) {
  struct Row {
    Method method;
    LinearSolver linear;
    const char* pass;
  };
  for (const Row& row : {Row{Method::levenberg_marquardt, LinearSolver::cholesky, "factor"},
                         Row{Method::levenberg_marquardt, LinearSolver::schur, "factor"},
                         Row{Method::levenberg_marquardt, LinearSolver::dense, "factor"},
                         Row{Method::dogleg, LinearSolver::automatic, "factor"},
                         Row{Method::lbfgs, LinearSolver::automatic, "direction"},
                         Row{Method::newton, LinearSolver::automatic, "direction"}}) {
    const auto springs = problems::springs(8);
    SolverOptions options = profiled();
    options.method = row.method;
    options.linear_solver = row.linear;
    const Summary summary = solve(springs->problem, options);
    EXPECT_GT(calls_of(summary, row.pass), 0u) << name(row.method) << " " << name(row.linear);
    EXPECT_GE(explained_share(summary), 0.3) << name(row.method) << " " << name(row.linear);
  }
}

TEST(Profile, ComponentsAreSolvedAsOne) {
  std::vector<double> x(512, 2.0);
  Problem problem;
  const Parameters unknowns = problem.add_parameters(x, 1);
  for (std::size_t k = 0; k < x.size(); ++k)
    problem.add_residual(unknowns(k, 0) * unknowns(k, 0) - 1.0);
  SolverOptions options = profiled();
  options.linear_solver = LinearSolver::automatic;
  options.components = Components::separate;
  try {
    solve(problem, options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    EXPECT_NE(std::string(error.what()).find("profile"), std::string::npos) << error.what();
  }
}

TEST(Profile, CheckpointsGoOnWithAndWithoutIt) {
  const std::string file =
      (std::filesystem::temp_directory_path() / "topograd_profile_test.checkpoint").string();
  const auto whole = problems::springs(12), half = problems::springs(12),
             rest = problems::springs(12);
  SolverOptions options = profiled();
  options.deterministic = true;
  const Summary expected = solve(whole->problem, options);
  options.checkpoint = {.file = file, .every_seconds = 0};
  options.max_iterations = 3;
  solve(half->problem, options);
  options.checkpoint.file.clear();
  options.resume = file;
  options.max_iterations = 8;
  options.profile = false;
  EXPECT_EQ(solve(rest->problem, options).final_cost, expected.final_cost);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace topograd
