// A problem that is solved repeatedly, with changes between solves.
#include "solver_cases.hpp"

#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"

#include <cmath>

namespace topograd::test {

Rope::Rope(std::size_t points_in_it) : count(points_in_it) {
  for (std::size_t k = 0; k < count; ++k) {
    const double t = static_cast<double>(k);
    observed.insert(observed.end(), {t, std::sin(0.3 * t), std::cos(0.2 * t)});
    start.insert(start.end(), {0.9 * t, 0.1 * std::sin(7 * t), 0.5});
  }
  x = start;
  points = problem.add_parameters(x, 3);
  seen = problem.add_data(observed, 3);
  weight = problem.add_uniform(0.5);
  for (std::size_t k = 0; k < count; ++k)
    problem.add_residual((points.vec3(k) - seen.vec3(k)) * weight.value(), {.label = "seen"});
  for (std::size_t k = 1; k < count; ++k)
    problem.add_residual(norm(points.vec3(k) - points.vec3(k - 1)) - 1.2, {.label = "length"});
}

void Rope::draw() {
  drawn = std::make_unique<std::vector<double>>(std::vector<double>{2, 1, 0, 3, 1, 1});
  drawn_points = problem.add_parameters(*drawn, 3);
  const auto tie = [&](const Vec3& a, const Vec3& b, double length) {
    ties.push_back(problem.add_residual(norm(a - b) - length, {.label = "length"}));
  };
  for (std::size_t k = 0; k < 6; ++k)
    tie(points.vec3(3 * k), drawn_points.vec3(k % 2), 1 + 0.2 * static_cast<double>(k));
  tie(drawn_points.vec3(0), drawn_points.vec3(1), 1.5);
  if (!last.empty()) return;
  last = {4, 0, 1};
  const Parameters end = problem.add_parameters(last, 3);
  for (std::size_t k = 5; k < 8; ++k)
    problem.add_residual(norm(points.vec3(k) - end.vec3(0)) - 1.0, {.label = "length"});
}

void Rope::erase() {
  for (const Residual& tie : ties) problem.remove(tie);
  ties.clear();
  problem.remove(drawn_points);
  drawn = nullptr;
}

namespace {

/// Bounds the second point's first coordinate, which starts inside.
void bound(Rope& rope, double upper) {
  rope.problem.set_bounds(rope.points, 1, 0, -1.0, upper);
  rope.x[3] = 1;
}

}  // namespace

std::vector<Change> changes() {
  return {
      {"nothing", [](Rope&) {}},
      {"data",
       [](Rope& r) {
         for (double& v : r.observed) v += 0.25;
         r.problem.set(r.seen, r.observed);
       }},
      {"a uniform", [](Rope& r) { r.problem.set(r.weight, 2.0); }},
      {.name = "a constant block",
       .apply = [](Rope& r) { r.problem.set_constant(r.points, 3); },
       .new_kernels = true},
      {"another constant block", [](Rope& r) { r.problem.set_constant(r.points, 9); }},
      {"the start", [](Rope& r) { r.x[7] += 0.5; }},
      {"a residual",
       [](Rope& r) {
         r.problem.add_residual(norm(r.points.vec3(0) - r.points.vec3(5)) - 4.0,
                                {.label = "length"});
       },
       true},
      {.name = "an array",
       .apply = [](Rope& r) { r.draw(); },
       .sets_up = true,
       .new_kernels = true},
      {.name = "without the array",
       .apply = [](Rope& r) { r.erase(); },
       .sets_up = true,
       .known = true},
      {.name = "another array", .apply = [](Rope& r) { r.draw(); }, .sets_up = true, .known = true},
      {"a bound", [](Rope& r) { bound(r, 1.2); }, true},
      {"another bound", [](Rope& r) { bound(r, 1.1); }},
  };
}

void expect_same_as_fresh_solves(const SolverOptions& options) {
  Rope kept(40);
  Solver solver(kept.problem, options);
  EXPECT_GT(solver.solve().num_successful_steps, 1);
  const std::vector<Change> all = changes();
  for (std::size_t last = 0; last < all.size(); ++last) {
    SCOPED_TRACE(all[last].name);
    Rope fresh(40);
    for (std::size_t k = 0; k <= last; ++k) all[k].apply(fresh);
    const std::uint64_t forms = kept.problem.statistics().canonical_forms;
    all[last].apply(kept);
    fresh.x = kept.x;  // the same start
    fresh.last = kept.last;
    if (kept.drawn) *fresh.drawn = *kept.drawn;
    const Summary expected = solve(fresh.problem, options);
    const Summary got = solver.solve();
    EXPECT_EQ(got.num_iterations(), expected.num_iterations());
    EXPECT_EQ(got.final_cost, expected.final_cost);
    EXPECT_EQ(kept.x, fresh.x);
    EXPECT_EQ(got.linear_solver, expected.linear_solver);
    EXPECT_EQ(got.backend, expected.backend);
    EXPECT_EQ(got.why, expected.why);
    if (all[last].known) {
      EXPECT_EQ(kept.problem.statistics().canonical_forms, forms);
      EXPECT_EQ(expected.shaders_compiled, 0u);
    }
    if (!all[last].sets_up && !all[last].new_kernels) {
      EXPECT_EQ(got.shaders_compiled, 0u);
      if (got.backend == "vulkan") {
        EXPECT_LT(got.bytes_up, expected.bytes_up);
      }
    }
  }
}

}  // namespace topograd::test
