// The problems on meshes on the interpreter: published values at the start, gradients, descent.
#include <gtest/gtest.h>

#include "../../../api/formats/mesh/mesh.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/check_gradients.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <Eigen/Geometry>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "../../../tools/problems/cloth.hpp"
#include "../../../tools/problems/developable.hpp"
#include "../../../tools/problems/smooth.hpp"
#include "../../support/paths.hpp"

namespace topograd {
namespace {

using problems::Developability;
using problems::TriangleMesh;

const SolverOptions kCpu = {.backend = Backend::cpu};

TriangleMesh perturbed(std::uint32_t subdivisions) {
  TriangleMesh mesh = problems::icosphere(subdivisions);
  problems::perturb(mesh.positions, 1e-3, 7);
  return mesh;
}

/// Largest error of the gradient against differences of the cost, relative to its largest entry.
double gradient_error(Problem& problem, std::vector<double> x, std::size_t every) {
  Evaluator e(problem, kCpu);
  const Eigen::VectorXd g = e.gradient(x);
  constexpr double h = 3e-7;  // eigenvalues nearly meet: third derivatives are large
  double worst = 0;
  for (std::size_t k = 0; k < x.size(); k += every) {
    const double at = x[k];
    x[k] = at + h;
    const double up = e.cost(x);
    x[k] = at - h;
    const double down = e.cost(x);
    x[k] = at;
    worst = std::max(worst, std::abs(g[static_cast<Eigen::Index>(k)] - (up - down) / (2 * h)));
  }
  return worst / g.cwiseAbs().maxCoeff();
}

TEST(Mesh, ShuffledIsTheSameSurface) {
  const TriangleMesh mesh = perturbed(2), shuffled = problems::shuffle(mesh, 5);
  EXPECT_NE(shuffled.triangles, mesh.triangles);
  const auto corners = [](const TriangleMesh& m) {
    std::multiset<std::vector<double>> all;
    for (const auto& t : m.triangles) {
      std::vector<double> corner;
      for (const std::uint32_t v : t)
        corner.insert(corner.end(), &m.positions[3 * v], &m.positions[3 * v] + 3);
      all.insert(std::move(corner));
    }
    return all;
  };
  EXPECT_EQ(corners(shuffled), corners(mesh));
  EXPECT_EQ(problems::shuffle(mesh, 5).positions, shuffled.positions);
  const auto cost = [](const TriangleMesh& m) {
    const auto stars = problems::developable(m, Developability::hinge, true);
    Evaluator e(stars->problem, kCpu);
    return e.cost(stars->positions);
  };
  EXPECT_NEAR(cost(shuffled), cost(mesh), 1e-12 * cost(mesh));
}

TEST(Icosphere, HasThePublishedSizes) {
  const std::size_t sizes[] = {12, 42, 162, 642};
  for (std::uint32_t k = 0; k < 4; ++k) {
    const TriangleMesh mesh = problems::icosphere(k);
    EXPECT_EQ(mesh.vertex_count(), sizes[k]);
    EXPECT_EQ(mesh.triangles.size(), 2 * sizes[k] - 4);  // Euler: V − E + F = 2
    EXPECT_EQ(problems::interior_edges(mesh).size(), 3 * sizes[k] - 6);
    for (std::size_t v = 0; v < mesh.vertex_count(); ++v) {
      const double* p = &mesh.positions[3 * v];
      EXPECT_NEAR(std::hypot(p[0], p[1], p[2]), 1, 1e-15);
    }
  }
}

TEST(Stars, AreFansThatAreClosedOrOpen) {
  // A pyramid without its base: the top has a closed ring, the corners open ones.
  TriangleMesh mesh{.positions = {1, 0, 0, 0, 1, 0, -1, 0, 0, 0, -1, 0, 0, 0, 1},
                    .triangles = {{4, 0, 1}, {4, 1, 2}, {4, 2, 3}, {4, 3, 0}}};
  const auto stars = problems::vertex_stars(mesh);
  ASSERT_EQ(stars.size(), 5u);
  EXPECT_TRUE(stars[4].closed);
  EXPECT_EQ(stars[4].ring, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_FALSE(stars[1].closed);
  EXPECT_EQ(stars[1].ring, (std::vector<std::uint32_t>{2, 4, 0}));
  EXPECT_EQ(stars[1].faces(), 2u);
  mesh.triangles.push_back({0, 2, 4});
  EXPECT_THROW(problems::vertex_stars(mesh), Error);  // 2 4 twice
  mesh.triangles = {{0, 1, 2}, {0, 3, 4}};
  try {
    problems::vertex_stars(mesh);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "mesh: the triangles at vertex 0 are more than one fan");
  }
}

/// Two squares of a roof, with triangles oriented by `orders`.
TriangleMesh roof(const std::array<bool, 4>& turned) {
  TriangleMesh mesh{.positions = {0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 2, 0.3, 1, 2, 0.3},
                    .triangles = {{0, 1, 2}, {1, 3, 2}, {2, 3, 4}, {3, 5, 4}}};
  for (std::size_t t = 0; t < 4; ++t)
    if (turned[t]) std::swap(mesh.triangles[t][0], mesh.triangles[t][1]);
  return mesh;
}

TEST(Mesh, EdgesOfTwoTrianglesDoNotAskForTheirOrientation) {
  const auto cost = [](const TriangleMesh& mesh) {
    Problem problem;
    std::vector<double> x = mesh.positions;
    for (std::size_t k = 0; k < x.size(); ++k) x[k] += 0.1 * std::sin(static_cast<double>(k));
    const Parameters p = problem.add_parameters(x, 3);
    problems::add_cotangent_smoothing(problem, p, mesh);
    problems::add_developability(problem, p, mesh, problems::Developability::covariance);
    return Evaluator(problem, kCpu).cost();
  };
  const TriangleMesh mesh = roof({});
  EXPECT_EQ(problems::interior_edges(mesh).size(), 3u);
  EXPECT_EQ(problems::vertex_stars(mesh).size(), 6u);
  const double want = cost(mesh);
  EXPECT_GT(want, 0.1);
  for (const auto& turned : {std::array{true, false, false, false}, {false, true, false, true}})
    EXPECT_NEAR(cost(roof(turned)), want, 1e-12 * want);

  TriangleMesh folded = mesh;  // a third triangle at the edge 2 3, and a degenerate one
  folded.positions.insert(folded.positions.end(), {0.5, 1, 3});
  folded.triangles.insert(folded.triangles.end(), {{2, 3, 6}, {0, 0, 1}, {5, 5, 5}});
  EXPECT_EQ(problems::interior_edges(folded).size(), 2u);
  EXPECT_EQ(problems::directed_edges(folded).size(), problems::directed_edges(mesh).size() + 4);
  const auto stars = problems::vertex_stars(folded, problems::Stars::any);
  ASSERT_EQ(stars.size(), 7u);
  EXPECT_FALSE(stars[2].fan);
  EXPECT_EQ(stars[2].faces(), 4u);
  EXPECT_FALSE(stars[2].closed);
  EXPECT_TRUE(stars[1].fan);
}

TEST(Smooth, InitialCostOnSpotIsThePublishedOne) {
  const TriangleMesh spot = read_mesh(test::source_dir() / "samples/data/spot.obj");
  const auto smooth = problems::smooth(spot);
  ASSERT_EQ(smooth->problem.topology_count(), 2u);
  EXPECT_EQ(smooth->problem.batch(1).size(), 8784u);
  Evaluator e(smooth->problem, kCpu);
  EXPECT_NEAR(e.cost() / 6.25798337662, 1, 1e-11);
  EXPECT_LT(gradient_error(smooth->problem, smooth->positions, 97), 1e-8);
}

TEST(Developable, EnergiesAtTheStartAreThePublishedOnes) {
  const double published[] = {11.5775313825, 12.3190256964, 14.1168382363, 14.6094352896,
                              14.6342072879};
  for (std::uint32_t k = 0; k < 5; ++k) {
    const auto made = problems::developable(problems::icosphere(k));
    EXPECT_NEAR(Evaluator(made->problem, kCpu).cost(), published[k], 6e-11) << k;
    EXPECT_EQ(made->problem.topology_count(), k == 0 ? 1u : 2u);
  }
}

TEST(Developable, HingeEnergyIsTheSumOfItsDefinition) {
  // Over all cuts of each star, with explicit sums over pairs.
  const TriangleMesh mesh = perturbed(1);
  double sum = 0;
  for (const problems::VertexStar& star : problems::vertex_stars(mesh)) {
    const std::size_t n = star.ring.size();
    const auto at = [&](std::uint32_t v) {
      return Eigen::Map<const Eigen::Vector3d>(&mesh.positions[3 * v]);
    };
    std::vector<Eigen::Vector3d> normals;
    for (std::size_t f = 0; f < n; ++f)
      normals.push_back((at(star.ring[f]) - at(star.vertex))
                            .cross(at(star.ring[(f + 1) % n]) - at(star.vertex))
                            .normalized());
    double least = 1e300;
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t size = 1; size < n; ++size) {
        double spread = 0;
        for (std::size_t f = 0; f < n; ++f)
          for (std::size_t g = 0; g < n; ++g) {
            const bool in_f = (f + n - a) % n < size, in_g = (g + n - a) % n < size;
            if (in_f != in_g) continue;
            spread += (normals[f] - normals[g]).squaredNorm() /
                      static_cast<double>(in_f ? size : n - size);
          }
        least = std::min(least, spread);
      }
    }
    sum += least;
  }
  const auto made = problems::developable(mesh, Developability::hinge);
  EXPECT_NEAR(Evaluator(made->problem, kCpu).cost(), sum, 1e-12 * sum);
}

TEST(Developable, GradientsAgreeWithDifferences) {
  for (const Developability energy : {Developability::covariance, Developability::hinge}) {
    const auto made = problems::developable(perturbed(1), energy);
    EXPECT_LT(gradient_error(made->problem, made->positions, 1), 1e-7) << name(energy);
  }
}

TEST(Developable, EveryDescentHalvesBothEnergies) {
  for (const Developability energy : {Developability::covariance, Developability::hinge}) {
    for (const Method method : {Method::lbfgs, Method::newton}) {
      const auto made = problems::developable(perturbed(1), energy);
      const Summary summary = solve(made->problem, {.backend = Backend::cpu,
                                                    .method = method,
                                                    .max_iterations = 150,
                                                    .function_tolerance = 1e-9});
      EXPECT_LT(summary.final_cost, summary.initial_cost / 2)
          << name(energy) << ", " << name(method);
      EXPECT_TRUE(summary.is_solution_usable()) << summary.message;
    }
  }
}

// Symmetric gradients keep the sphere symmetric as far as possible: without an escape the energy
// ends at four fifths of its start.
TEST(Developable, LeavesTheSymmetricSphere) {
  for (const std::uint32_t k : {0u, 1u}) {
    const auto made = problems::developable(problems::icosphere(k));
    const Summary summary = solve(made->problem, {.backend = Backend::cpu, .max_iterations = 100});
    EXPECT_GE(summary.num_escapes, k == 0 ? 0 : 1) << "rounding may break the first's symmetry";
    EXPECT_LT(summary.final_cost, summary.initial_cost / 2) << summary.full_report();
  }
}

// The projected Hessians are exact, so the covariance energy becomes 0: the sphere is developed.
TEST(Developable, NewtonReachesZero) {
  const auto made = problems::developable(perturbed(1));
  const Summary summary = solve(made->problem, {.backend = Backend::cpu,
                                                .method = Method::newton,
                                                .max_iterations = 80,
                                                .function_tolerance = 1e-9});
  // At the end energies are rounding, but gradients may not be: they can promise more.
  EXPECT_TRUE(summary.termination == Termination::CONVERGENCE ||
              summary.message.ends_with("; but the gradient promises more"))
      << summary.message;
  EXPECT_LT(std::abs(summary.final_cost), 1e-12 * summary.initial_cost);
}

TEST(Cloth, EnergiesAreThoseOfTheirDefinitions) {
  const auto cloth = problems::cloth(3);
  EXPECT_EQ(cloth->problem.energy_count(), 8u + 8u + 9u + 9u);  // triangles, edges, vertices
  // Flat at the height 2, without the ball's touch: the weight alone.
  for (std::size_t k = 0; k < 9; ++k) {
    const auto at = [&](std::size_t c) -> double& { return cloth->positions[3 * k + c]; };
    at(0) = 0.5 * static_cast<double>(k % 3);
    at(1) = 2;
    at(2) = 0.5 * static_cast<double>(k / 3);
  }
  EXPECT_NEAR(Evaluator(cloth->problem, {.backend = Backend::cpu}).cost(), 0.2 * 9.81 * 2, 1e-12);
  // Stretched by half along x: E = 5/8 in one direction, over one square metre.
  for (std::size_t k = 0; k < 9; ++k) cloth->positions[3 * k] *= 1.5;
  const double strain = (1.5 * 1.5 - 1) / 2, stretched = (60 + 40 / 2.0) * strain * strain;
  EXPECT_NEAR(Evaluator(cloth->problem, {.backend = Backend::cpu}).cost(),
              0.2 * 9.81 * 2 + stretched, 1e-10);
}

TEST(Cloth, NewtonLaysItOverTheBall) {
  const auto cloth = problems::cloth(9);
  const GradientCheck check = check_gradients(cloth->problem);
  EXPECT_TRUE(check.passed()) << (check.messages.empty() ? "" : check.messages.front());
  const std::vector<double> start = cloth->positions;
  const Summary summary = solve(cloth->problem, {.backend = Backend::cpu,
                                                 .method = Method::newton,
                                                 .linear_solver = LinearSolver::cholesky,
                                                 .max_iterations = 200});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  const auto height = [&](std::size_t k) { return cloth->positions[3 * k + 1]; };
  EXPECT_NEAR(height(40), 0.95, 0.02);  // the middle, on top of the ball
  EXPECT_LT(height(4), 0.65);           // the middle of a side hangs below the corners
  EXPECT_LT(summary.final_cost, summary.initial_cost / 5);
  for (const std::size_t corner : {0, 8, 72, 80})
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_EQ(cloth->positions[3 * corner + c], start[3 * corner + c]);
}

TEST(Multi, WeightsMoveTheMinimumWithoutNewTopologies) {
  const auto made = problems::multi(perturbed(1));
  const std::size_t topologies = made->problem.topology_count();
  EXPECT_GE(topologies, 4u);
  EXPECT_LT(gradient_error(made->problem, made->positions, 1), 1e-7);
  const SolverOptions options = {.backend = Backend::cpu, .method = Method::lbfgs};
  const Summary first = solve(made->problem, options);
  EXPECT_LT(first.final_cost, first.initial_cost);
  made->problem.set(made->fit, 10);
  made->problem.set(made->developability, 0.1);
  const Summary second = solve(made->problem, options);
  EXPECT_LT(second.final_cost, second.initial_cost);
  EXPECT_EQ(made->problem.topology_count(), topologies);
}

}  // namespace
}  // namespace topograd
