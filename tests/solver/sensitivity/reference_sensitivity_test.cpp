// Derivatives of reference problems' solutions against differences of whole solves.
#include "../../../api/expression/expression.hpp"
#include "../../../api/formats/bal.hpp"
#include "../../../api/formats/bundle_adjustment.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../solver/sensitivity.hpp"
#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/nist.hpp"
#include "../../support/paths.hpp"
#include "whole_solves.hpp"

#include <gtest/gtest.h>
#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using test::expect_derivative;
using test::Line;
using test::some_numbers;
using test::to_rounding;

TEST(ReferenceSensitivity, Nist) {
  // TOPOGRAD_NIST: a folder with more of the sets.
  const char* const more = std::getenv("TOPOGRAD_NIST");
  const std::string folder = more != nullptr ? more : test::source_dir() / "tests/data/nist";
  for (const std::string& file : problems::nist_files(folder)) {
    const problems::NistSet set = problems::read_nist(file);
    SCOPED_TRACE(set.name);
    // From the certified values, with all columns in a data array.
    std::vector<double> b = set.certified;
    const auto columns = static_cast<int>(set.columns.size());
    Problem problem;
    const Parameters p = problem.add_parameters(b, 1, "b");
    const Data data = problem.add_data(set.data, columns, "data");
    std::vector<Value> parameters;
    std::vector<std::uint32_t> rows;
    for (std::size_t k = 0; k < b.size(); ++k) parameters.push_back(p[k]);
    for (std::uint32_t k = 0; k < set.observations(); ++k) rows.push_back(k);
    problem.add_residuals(rows.size(),
                          [&](Element e) {
                            std::vector<Value> values;
                            for (int c = 0; c < columns; ++c) values.push_back(data(e.index(0), c));
                            return to_values(
                                set.residual,
                                {.parameters = parameters, .data = values, .uniforms = {}});
                          },
                          {.indices = rows});
    solve(problem, to_rounding(LinearSolver::dense));
    test::polish(problem, 4);
    const Sensitivity s(problem);
    // Observations change by shares of their size; predictors stay where they are 0.
    Eigen::VectorXd d = some_numbers(s.size(), 1);
    for (Eigen::Index k = 0; k < d.size(); ++k) d[k] *= 0.1 * set.data[static_cast<std::size_t>(k)];
    const auto move = [&](double t) {
      std::vector<double> moved = set.data;
      for (std::size_t k = 0; k < moved.size(); ++k)
        moved[k] += t * d[static_cast<Eigen::Index>(k)];
      problem.set(data, moved);
    };
    // Unknowns of different sizes are compared one by one.
    const Line line{.problem = problem,
                    .move = move,
                    .dtheta = d,
                    .length = 0.01,
                    .lengths = 10,
                    .options = to_rounding(LinearSolver::dense),
                    .newton_steps = 4};
    const Eigen::VectorXd expected = test::difference(line), dx = s.jvp(d);
    for (Eigen::Index k = 0; k < dx.size(); ++k)
      EXPECT_NEAR(dx[k], expected[k], 1e-6 * std::abs(expected[k])) << "b" << k + 1;
    const Eigen::VectorXd v = some_numbers(b.size(), 2).cwiseQuotient(dx);
    EXPECT_NEAR(s.vjp(v).dot(d), v.dot(dx), 1e-8 * v.cwiseAbs().dot(dx.cwiseAbs()));
  }
}

TEST(ReferenceSensitivity, Arap) {
  // An icosphere whose north is pulled; θ: the targets, and the weights of edges and pins.
  const TriangleMesh mesh = problems::icosphere(1);
  const std::size_t vertices = mesh.positions.size() / 3;
  std::vector<double> positions = mesh.positions, rotations(positions.size(), 0), targets;
  std::vector<std::uint32_t> pinned;
  for (std::uint32_t k = 0; k < vertices; ++k) {
    const double* u = mesh.positions.data() + 3 * std::size_t{k};
    if (std::abs(u[1]) < 0.8) continue;
    pinned.push_back(k);
    targets.insert(targets.end(), {u[0], u[1], u[2] + (u[1] > 0 ? 0.4 : 0)});
  }
  ASSERT_GE(pinned.size(), 4u);
  Problem problem;
  const Parameters p = problem.add_parameters(positions, 3),
                   a = problem.add_parameters(rotations, 3);
  const Uniform stiffness = problem.add_uniform(1), pull = problem.add_uniform(10);
  const Data target = problem.add_data(targets, 3);
  problems::add_rigid_edges(problem, p, a, mesh, &stiffness);
  std::vector<std::uint32_t> indices;
  for (std::uint32_t k = 0; k < pinned.size(); ++k) indices.insert(indices.end(), {pinned[k], k});
  problem.add_residuals(
      pinned.size(),
      [=](Element e) { return pull.value() * (e.vec3(p, 0) - target.vec3(e.index(1))); },
      {.indices = indices});
  solve(problem, to_rounding());
  const Sensitivity s(problem);
  Eigen::VectorXd d = some_numbers(s.size(), 3);
  const auto n = static_cast<Eigen::Index>(targets.size());
  expect_derivative(s, {.problem = problem,
                        .move =
                            [&](double t) {
                              std::vector<double> moved = targets;
                              for (Eigen::Index k = 0; k < n; ++k)
                                moved[static_cast<std::size_t>(k)] += t * d[k];
                              problem.set(target, moved);
                              problem.set(stiffness, 1 + t * d[n]);
                              problem.set(pull, 10 + t * d[n + 1]);
                            },
                        .dtheta = d,
                        .length = 0.1,
                        .lengths = 6});
}

using Vector3 = Eigen::Vector3d;

Vector3 vector_of(const std::array<double, 3>& v) { return {v[0], v[1], v[2]}; }
Vector3 vector_of(const std::vector<double>& numbers, std::size_t first) {
  return {numbers[first], numbers[first + 1], numbers[first + 2]};
}

/// The scene without points that its cameras see from nearly one side, whose distance the
/// observations do not tell, and without their observations.
BundleScene with_parallax(const BundleScene& scene, double least_angle) {
  std::vector<std::vector<Vector3>> rays(scene.point_count());
  for (const BundleScene::Observation& o : scene.observations)
    rays[o.point].push_back(
        (vector_of(scene.points, 3 * std::size_t{o.point}) - vector_of(scene.center(o.camera)))
            .normalized());
  BundleScene out{.cameras = scene.cameras, .points = {}, .observations = {}};
  std::vector<std::uint32_t> numbers(scene.point_count(), ~0u);
  for (std::size_t k = 0; k < rays.size(); ++k) {
    double widest = 0;
    for (const Vector3& a : rays[k])
      for (const Vector3& b : rays[k]) widest = std::max(widest, a.cross(b).norm());
    if (rays[k].size() < 3 || widest < least_angle) continue;
    numbers[k] = static_cast<std::uint32_t>(out.point_count());
    out.points.insert(out.points.end(), scene.points.begin() + static_cast<std::ptrdiff_t>(3 * k),
                      scene.points.begin() + static_cast<std::ptrdiff_t>(3 * k + 3));
  }
  for (const BundleScene::Observation& o : scene.observations)
    if (numbers[o.point] != ~0u) out.observations.push_back({o.camera, numbers[o.point], o.seen});
  return out;
}

/// A translation that changes most if the scene grows around its first camera: that of the camera
/// which is farthest from it.
std::pair<std::size_t, std::uint32_t> scale_of(const BundleScene& scene) {
  const Vector3 first = vector_of(scene.center(0));
  std::size_t farthest = 0;
  double distance = 0;
  for (std::size_t k = 1; k < scene.camera_count(); ++k) {
    const double d = (vector_of(scene.center(k)) - first).norm();
    if (d <= distance) continue;
    distance = d;
    farthest = k;
  }
  const Vector3 turn = vector_of(scene.cameras, 9 * farthest);
  const Eigen::AngleAxisd rotation(turn.norm(), turn.normalized());
  Eigen::Index coordinate = 0;
  (rotation * (vector_of(scene.center(farthest)) - first)).cwiseAbs().maxCoeff(&coordinate);
  return {farthest, 1u << (3 + coordinate)};
}

/// The observations of points by cameras are θ. The first camera's pose stays, and a coordinate of
/// another one, which fixes position, orientation and size of the scene.
void expect_bundle_derivative(const BundleScene& scene, LinearSolver solver) {
  std::vector<double> cameras = scene.cameras, points = scene.points, seen;
  std::vector<std::uint32_t> indices;
  for (std::uint32_t k = 0; k < scene.observations.size(); ++k) {
    const BundleScene::Observation& o = scene.observations[k];
    seen.insert(seen.end(), o.seen.begin(), o.seen.end());
    indices.insert(indices.end(), {o.camera, o.point, k});
  }
  Problem problem;
  const Parameters c = problem.add_parameters(cameras, 9, "cameras");
  const Parameters p = problem.add_parameters(points, 3, "points");
  const Data image = problem.add_data(seen, 2);
  problem.add_residuals(scene.observations.size(),
                        [=](Element e) {
                          std::array<Value, 9> camera;
                          for (int k = 0; k < 9; ++k)
                            camera[static_cast<std::size_t>(k)] = c(e.index(0), k);
                          const auto rows =
                              reprojection(camera, e.vec3(p, 1), image.vec2(e.index(2)));
                          return std::vector<Value>(rows.begin(), rows.end());
                        },
                        {.indices = indices});
  problem.set_constant(c, 0, 0x3f);
  const auto [scales, coordinate] = scale_of(scene);
  problem.set_constant(c, scales, coordinate);
  SolverOptions options = to_rounding(solver);
  options.function_tolerance = 1e-15;
  const Summary summary = solve(problem, options);
  ASSERT_TRUE(std::isfinite(summary.final_cost));
  test::polish(problem, 3);
  const Sensitivity s(problem);
  const Eigen::VectorXd d = some_numbers(s.size(), 5);
  expect_derivative(s, {.problem = problem,
                        .move =
                            [&](double t) {
                              std::vector<double> moved = seen;
                              for (std::size_t k = 0; k < moved.size(); ++k)
                                moved[k] += t * d[static_cast<Eigen::Index>(k)];
                              problem.set(image, moved);
                            },
                        .dtheta = d,
                        .length = 0.2,
                        .lengths = 5,
                        .options = options,
                        .newton_steps = 3});
}

TEST(ReferenceSensitivity, Bundle) {
  const auto bundle =
      problems::bundle({.cameras = 6, .points = 40, .observations = 200, .noise = 0.2, .seed = 3});
  expect_bundle_derivative(*bundle, LinearSolver::cholesky);
}

TEST(ReferenceSensitivity, BundleFromFile) {
  const char* const file = std::getenv("TOPOGRAD_BAL");
  if (file == nullptr)
    GTEST_SKIP() << "set TOPOGRAD_BAL to a file of Bundle Adjustment in the Large";
  BundleAdjustment adjustment(read_bal(file));
  solve(adjustment.problem(), {.backend = Backend::cpu});
  expect_bundle_derivative(with_parallax(adjustment.scene(), 0.05), LinearSolver::schur);
}

}  // namespace
}  // namespace topograd
