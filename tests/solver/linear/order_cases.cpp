// Problems whose residuals are added in several orders.
#include "order_cases.hpp"

#include <gtest/gtest.h>

#include "../../../frontend/mat.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/shuffle.hpp"
#include "../../../tools/problems/springs.hpp"

namespace topograd::test {
namespace {

/// Unknowns, and residuals that can be added in any order.
struct Pieces {
  std::vector<std::vector<double>> start;
  std::vector<int> widths;
  std::vector<std::function<void(Problem&, const std::vector<Parameters>&)>> residuals;
};

Pieces arap_pieces() {
  const problems::TriangleMesh mesh = problems::icosphere(1);
  Pieces out{{mesh.positions, std::vector<double>(mesh.positions.size(), 0.0)}, {3, 3}, {}};
  for (const auto& edge : problems::directed_edges(mesh)) {
    out.residuals.push_back([edge, u = mesh.positions](Problem& problem, const auto& p) {
      const auto [i, j] = edge;
      const Vec3 rest = {u[3 * i] - u[3 * j], u[3 * i + 1] - u[3 * j + 1],
                         u[3 * i + 2] - u[3 * j + 2]};
      problem.add_residual(p[0].vec3(i) - p[0].vec3(j) - rotate(p[1].vec3(i), rest));
    });
  }
  for (const problems::Pin& pin : problems::arap_pins(mesh)) {
    out.residuals.push_back([pin](Problem& problem, const auto& p) {
      const Vec3 target = {pin.target[0], pin.target[1], pin.target[2]};
      problem.add_residual((p[0].vec3(pin.vertex) - target) * problems::kPinWeight);
    });
  }
  return out;
}

Pieces bundle_pieces() {
  const auto made =
      problems::bundle({.cameras = 5, .points = 40, .observations = 150, .noise = 0.5});
  Pieces out{{made->cameras, made->points}, {9, 3}, {}};
  for (const problems::Bundle::Observation& seen : made->observations) {
    out.residuals.push_back([seen](Problem& problem, const auto& p) {
      const auto c = [&](int k) { return p[0](seen.camera, k); };
      const Vec3 at =
          rotate(Vec3{c(0), c(1), c(2)}, p[1].vec3(seen.point)) + Vec3{c(3), c(4), c(5)};
      const Value u = -at.x / at.z, v = -at.y / at.z, s = u * u + v * v;
      const Value scale = c(6) * (literal(1) + s * (c(7) + c(8) * s));
      problem.add_residual({scale * u - seen.seen[0], scale * v - seen.seen[1]});
    });
  }
  return out;
}

Pieces springs_pieces() {
  const problems::SpringGrid grid = problems::spring_grid(8);
  Pieces out{{grid.x}, {3}, {}};
  for (const problems::Spring& spring : grid.springs) {
    out.residuals.push_back([spring](Problem& problem, const auto& p) {
      problems::add_springs(problem, p[0], {&spring, 1});
    });
  }
  return out;
}

/// Returns the summary and the final x.
std::pair<Summary, std::vector<double>> solved(const Pieces& pieces, const SolverOptions& options) {
  std::vector<std::vector<double>> x = pieces.start;
  Problem problem;
  std::vector<Parameters> parameters;
  for (std::size_t k = 0; k < x.size(); ++k)
    parameters.push_back(problem.add_parameters(x[k], pieces.widths[k]));
  for (const auto& add : pieces.residuals) add(problem, parameters);
  const Summary summary = solve(problem, options);
  std::vector<double> end(problem.parameter_count());
  problem.read_x(end);
  return {summary, end};
}

void compare(const Pieces& pieces, const SolverOptions& options, bool converges) {
  const auto [want, x] = solved(pieces, options);
  EXPECT_EQ(want.termination == Termination::CONVERGENCE, converges) << want.message;
  for (const std::uint64_t seed : {0, 1}) {  // 0: from last to first
    Pieces other = pieces;
    std::mt19937_64 random(seed);
    if (seed == 0) std::reverse(other.residuals.begin(), other.residuals.end());
    if (seed != 0) problems::shuffle_in_place(other.residuals, random);
    const auto [got, y] = solved(other, options);
    EXPECT_EQ(got.termination, want.termination) << got.message;
    EXPECT_EQ(got.topologies.size(), want.topologies.size());
    EXPECT_NEAR(got.initial_cost, want.initial_cost, 1e-14 * want.initial_cost);
    EXPECT_NEAR(got.final_cost, want.final_cost, 1e-12 * want.final_cost);
    for (std::size_t k = 1; k <= 3; ++k) {
      const double cost = want.iterations.at(k).cost;
      EXPECT_NEAR(got.iterations.at(k).cost, cost, 1e-11 * cost) << "step " << k;
    }
    double apart = 0, size = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      apart = std::max(apart, std::abs(x[k] - y[k]));
      size = std::max(size, std::abs(x[k]));
    }
    EXPECT_LE(apart, 1e-7 * size);  // the square root of rounding
  }
}

}  // namespace

void expect_order_does_not_matter(const SolverOptions& base) {
  SolverOptions options = base;
  options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance = 1e-13;
  options.linear_tolerance = 1e-12;
  options.max_linear_iterations = 5000;
  const struct {
    const char* what;
    Pieces pieces;
    LinearSolver linear;
    int steps = 50;
  } rows[] = {{"arap", arap_pieces(), LinearSolver::pcg},
              {"arap, factor", arap_pieces(), LinearSolver::cholesky},
              {"bundle", bundle_pieces(), LinearSolver::schur},
              {"bundle, factor", bundle_pieces(), LinearSolver::cholesky},
              {"springs", springs_pieces(), LinearSolver::pcg, 4},
              {"springs, factor", springs_pieces(), LinearSolver::cholesky, 4}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    options.linear_solver = row.linear;
    options.max_iterations = row.steps;  // steps along soft modes are short
    compare(row.pieces, options, row.steps == 50);
  }
}

}  // namespace topograd::test
