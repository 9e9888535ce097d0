// Steps by a Schur complement on a device: compared with the host's factor, and their end.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../runtime/linear/schur_plan.hpp"
#include "../../../solver/linear/engine_steps.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

constexpr problems::BundleOptions kSmall = {.cameras = 6, .points = 60, .observations = 200};

class VulkanSchur : public test::VulkanTest {};

SolverOptions options_for(Backend backend) {
  return {.backend = backend,
          .linear_solver = LinearSolver::schur,
          .max_iterations = 8,
          .function_tolerance = 1e-14,
          .gradient_tolerance = 1e-14,
          .parameter_tolerance = 1e-14,
          .linear_tolerance = 1e-13};
}

/// The device's steps equal the host's: costs, gains and lengths.
void expect_same_steps(const Summary& device, const Summary& host, double bound) {
  EXPECT_EQ(device.linear_solver, LinearSolver::schur) << device.linear_solver_note;
  EXPECT_NE(device.linear_solver_note.find("on the device"), std::string::npos)
      << device.linear_solver_note;
  EXPECT_EQ(host.linear_solver, LinearSolver::schur) << host.linear_solver_note;
  EXPECT_NEAR(device.final_cost, host.final_cost,
              bound * host.final_cost + 1e-14 * host.initial_cost)
      << device.message << host.message;
  // At the minimum rounding decides which trial is the last.
  const std::size_t count = std::min(device.iterations.size(), host.iterations.size());
  ASSERT_GT(count, 3u);
  bool same_radius = true;
  for (std::size_t k = 0; k < count; ++k) {
    SCOPED_TRACE(k);
    const IterationSummary &d = device.iterations[k], &h = host.iterations[k];
    // At the minimum rounding decides, and if it does so in two ways, the next steps begin at two
    // points.
    const bool same = d.step_is_successful == h.step_is_successful;
    const bool at_minimum = k > 0 && std::abs(h.cost_change) <= 1e-9 * h.cost;
    EXPECT_TRUE(same || at_minimum);
    EXPECT_NEAR(d.cost, h.cost, bound * h.cost + 1e-14 * host.initial_cost);
    if (same_radius && h.cost > 1e-12 * host.initial_cost) {
      // Rounding of the gradient is a step of its own, which short steps show.
      EXPECT_NEAR(d.step_norm, h.step_norm,
                  bound * h.step_norm + 1e-11 * host.iterations[1].step_norm);
    }
    if (k <= 1) {  // later ones may factorise
      EXPECT_EQ(d.linear_iterations > 0, k == 1);
    }
    if (!same) return;
    same_radius = same_radius && !at_minimum;  // it follows from the gain, which rounding decides
  }
}

template <class Make>
void compare(const Make& make) {
  const auto on_device = make(), on_host = make();
  const Summary device = solve(on_device->problem, options_for(Backend::vulkan));
  expect_same_steps(device, solve(on_host->problem, options_for(Backend::cpu)), 1e-6);
}

TEST_F(VulkanSchur, StepsOfTheHost) {
  TG_NEEDS(float64);
  problems::BundleOptions noisy = kSmall;
  noisy.noise = 0.5;
  compare([&] { return problems::bundle(noisy); });
  compare([] { return problems::arap(problems::icosphere(1)); });
}

/// A complement whose systems take more iterations than a factor has dispatches is factorised from
/// the second step on.
TEST_F(VulkanSchur, ManyIterationsAreReplacedByAFactor) {
  TG_NEEDS(float64);
  problems::BundleOptions noisy = kSmall;
  noisy.noise = 0.5;
  const auto tight = problems::bundle(noisy), loose = problems::bundle(noisy);
  SolverOptions options = options_for(Backend::vulkan);
  const Summary factored = solve(tight->problem, options);
  ASSERT_GT(factored.iterations.size(), 4u);
  EXPECT_GT(factored.iterations[1].linear_iterations, 10);
  for (std::size_t k = 2; k < factored.iterations.size(); ++k)
    EXPECT_EQ(factored.iterations[k].linear_iterations, 0) << k;
  options.linear_tolerance = 0.5;
  const Summary iterated = solve(loose->problem, options);
  for (std::size_t k = 1; k < iterated.iterations.size(); ++k)
    EXPECT_GT(iterated.iterations[k].linear_iterations, 0) << k;
}

TEST_F(VulkanSchur, NoiseFreeBundleIsFoundByTheChooser) {
  TG_NEEDS(float64);
  const auto bundle = problems::bundle({.cameras = 6, .points = 400, .observations = 1300});
  const SolverOptions options = {.backend = Backend::vulkan};
  const Summary summary = solve(bundle->problem, options);
  EXPECT_EQ(summary.linear_solver, LinearSolver::schur) << summary.linear_solver_note;
  EXPECT_NE(summary.linear_solver_note.find("400 blocks eliminated, 54 unknowns remain"),
            std::string::npos)
      << summary.linear_solver_note;
  EXPECT_LE(summary.final_cost, 1e-16 * summary.initial_cost) << summary.message;
  EXPECT_LE(problems::bundle_errors(*bundle).point_max, 1e-6);
}

/// A band of 3 × 60 vertices, pinned at its ends.
problems::TriangleMesh band() {
  problems::TriangleMesh mesh;
  constexpr std::uint32_t kLength = 60;
  for (std::uint32_t k = 0; k < 3 * kLength; ++k)
    mesh.positions.insert(mesh.positions.end(),
                          {0.9 * (k % 3), 1.0 * (k / 3), 0.2 * std::sin(0.3 * (k / 3))});
  for (std::uint32_t k = 0; k + 3 < 3 * kLength; ++k) {
    if (k % 3 == 2) continue;
    mesh.triangles.push_back({k, k + 1, k + 4});
    mesh.triangles.push_back({k, k + 4, k + 3});
  }
  return mesh;
}

/// Rotations could be eliminated, but the remainder is a mesh: an iteration on it would cost less,
/// but there would be several times as many as with coarse vectors, whose construction is counted.
TEST_F(VulkanSchur, MeshesAreNotForIt) {
  TG_NEEDS(float64);
  SolverOptions options = {.backend = Backend::vulkan, .max_iterations = 20};
  const auto mesh = problems::arap(band()), same = problems::arap(band());
  const Summary chosen = solve(mesh->problem, options);
  EXPECT_EQ(chosen.linear_solver, LinearSolver::pcg) << chosen.linear_solver_note;
  EXPECT_NE(chosen.linear_solver_note.find("a mesh, up to"), std::string::npos)
      << chosen.linear_solver_note;
  options.linear_solver = LinearSolver::schur;
  const Summary eliminated = solve(same->problem, options);
  EXPECT_EQ(eliminated.linear_solver, LinearSolver::schur) << eliminated.linear_solver_note;
  // Later steps of the other solve factorise.
  EXPECT_LE(4 * chosen.num_linear_iterations / chosen.num_iterations(),
            eliminated.iterations[1].linear_iterations);
  EXPECT_LE(chosen.final_cost, (1 + 1e-2) * eliminated.final_cost);
}

/// Points and cameras of a line, alternating in one array of blocks of two, under residuals with a
/// loss.
struct Interleaved {
  explicit Interleaved(bool robust) {
    constexpr int kPairs = 40;
    for (int k = 0; k < 4 * kPairs; ++k) x.push_back(0.3 * std::sin(1.7 * k) + 0.1 * k);
    all = problem.add_parameters(x, 2);
    const Loss loss = robust ? Loss::huber(0.4) : Loss();
    for (std::size_t k = 0; k < kPairs; ++k) {
      for (const std::size_t other : {k, (k + 1) % 8, (3 * k + 2) % 8}) {
        // Even blocks below 16 are kept, odd ones meet some of those.
        const Value a = all(2 * (other % 8), 0), b = all(2 * (other % 8), 1);
        const Value u = all(2 * k + 1, 0), v = all(2 * k + 1, 1);
        problem.add_residual(a * u + b * v - 0.7 * static_cast<double>(k % 5), {.loss = loss});
        problem.add_residual(u - sin(v + b) - 0.1 * static_cast<double>(k), {.loss = loss});
      }
    }
    for (std::size_t k = 0; k + 1 < 8; ++k)
      problem.add_residual(all(2 * k, 0) - all(2 * k + 2, 0) + 0.1 * all(2 * k, 1), {.loss = loss});
    for (std::size_t k = 8; k < kPairs; ++k) problem.set_constant(all, 2 * k);
  }
  std::vector<double> x;
  Problem problem;
  Parameters all;
};

TEST_F(VulkanSchur, InterleavedArraysAndLosses) {
  TG_NEEDS(float64);
  for (const bool robust : {false, true}) {
    SCOPED_TRACE(robust);
    compare([&] { return std::make_unique<Interleaved>(robust); });
  }
}

TEST_F(VulkanSchur, GroupsOfTheCallers) {
  TG_NEEDS(float64);
  Interleaved found(false), given(false), wrong(false);
  SolverOptions options = options_for(Backend::vulkan);
  const Summary want = solve(found.problem, options);
  for (std::size_t k = 1; k < given.x.size() / 2; k += 2)
    options.linear_solver_ordering.push_back({given.all, 0, k});
  options.linear_solver = LinearSolver::automatic;
  const Summary got = solve(given.problem, options);
  EXPECT_EQ(got.linear_solver, LinearSolver::schur);
  EXPECT_NE(got.linear_solver_note.find("in the order given; on the device, 40 blocks eliminated"),
            std::string::npos)
      << got.linear_solver_note;
  EXPECT_NEAR(got.final_cost, want.final_cost, 1e-9 * want.final_cost);
  options.linear_solver_ordering.clear();
  options.linear_solver_ordering = {{wrong.all, 0, 1}, {wrong.all, 0, 2}};
  EXPECT_THROW(solve(wrong.problem, options), Error);
}

TEST_F(VulkanSchur, ConstantBlocksAndCoordinates) {
  TG_NEEDS(float64);
  const auto make = [] {
    auto made = std::make_unique<Interleaved>(true);
    made->problem.set_constant(made->all, 0);
    made->problem.set_constant(made->all, 2, 0b10);
    made->problem.set_constant(made->all, 7);
    made->problem.set_constant(made->all, 11, 0b01);
    return made;
  };
  compare(make);
}

TEST_F(VulkanSchur, OtherPrecisions) {
  TG_NEEDS(float64);
  for (const Precision precision : {Precision::f32, Precision::mixed}) {
    SCOPED_TRACE(std::string(name(precision)));
    const auto bundle = problems::bundle(kSmall);
    SolverOptions options = {
        .backend = Backend::vulkan, .precision = precision, .linear_solver = LinearSolver::schur};
    const Summary summary = solve(bundle->problem, options);
    EXPECT_NE(summary.linear_solver_note.find("on the device"), std::string::npos);
    EXPECT_LE(summary.final_cost,
              (precision == Precision::f32 ? 1e-9 : 1e-16) * summary.initial_cost)
        << summary.message;
  }
}

/// A block on which nothing depends, undamped: its matrix is zero.
TEST_F(VulkanSchur, SingularBlocksEndTheSolve) {
  TG_NEEDS(float64);
  std::vector<std::string> messages;
  for (const Backend backend : {Backend::cpu, Backend::vulkan}) {
    std::vector<double> x = {1, 2}, points(60, 0.5);
    Problem problem;
    const Parameters a = problem.add_parameters(x, 2), p = problem.add_parameters(points, 2);
    for (std::size_t k = 0; k < 30; ++k)
      problem.add_residual(a(0, 0) * (p(k, 0) + 0.0 * p(k, 1)) - a(0, 1) * static_cast<double>(k));
    SolverOptions options = options_for(backend);
    options.min_lm_diagonal = 0;
    options.scale_free = false;  // this also damps columns of zeros
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.termination, Termination::FAILURE) << summary.message;
    EXPECT_EQ(points[0], 0.5);
    messages.push_back(summary.message);
  }
  EXPECT_NE(messages[0].find("no usable step"), std::string::npos) << messages[0];
  EXPECT_EQ(messages[1], messages[0]);
}

TEST(SchurPlan, SaysWhyNot) {
  struct Row {
    std::string name;
    runtime::MatrixReason why;
    std::vector<std::uint8_t> scalars;
  };
  using Why = runtime::MatrixReason;
  for (const Row& row :
       {Row{"chain", Why::eliminated_meet, {1, 1, 0}},
        Row{"none", Why::nothing_to_eliminate, {0, 0, 0}},
        Row{"all", Why::nothing_to_eliminate, {1, 1, 1}}, Row{"ends", Why::none, {1, 0, 1}}}) {
    SCOPED_TRACE(row.name);
    std::vector<double> x = {1, 2, 4};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    for (std::size_t k = 0; k < 2; ++k) problem.add_residual(p(k, 0) * p(k + 1, 0) - 1.0);
    const ProblemModel made = make_model("test", problem);
    std::vector<std::vector<runtime::SlotGroup>> groups;
    for (const runtime::Term& term : made.model.terms)
      groups.push_back(runtime::find_groups(*term.batch, made.model.arrays));
    const runtime::SchurPlan plan = runtime::plan_schur(made.model, row.scalars, groups);
    EXPECT_EQ(plan.why.reason, row.why);
    if (!plan.possible()) continue;
    EXPECT_EQ(plan.unknowns(), 1u);
    EXPECT_EQ(plan.complement.values(), 1u);
    EXPECT_EQ(plan.total_products, 2u);
  }
}

}  // namespace
}  // namespace topograd
