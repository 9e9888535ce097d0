// The functors used to compare with Ceres, through the interface in Ceres' style, give the same
// problems as the versions written as plain values.
#include "../../../bench/peer_functors.hpp"

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/smooth.hpp"
#include "../../../tools/problems/springs.hpp"

#include <ceres/ceres.h>

#include <gtest/gtest.h>
#include "../../../solver/evaluator.hpp"

#include <vector>

namespace topograd::test {
namespace {

using ceres::AutoDiffCostFunction;

/// Cost and gradient of a problem in Ceres' style and of one of ours, over the same unknowns.
void expect_same(ceres::Problem& theirs, Problem& ours) {
  double cost = 0;
  std::vector<double> gradient;
  ASSERT_TRUE(theirs.Evaluate({}, &cost, nullptr, &gradient, nullptr));
  Evaluator evaluator(ours, {.backend = Backend::cpu});
  EXPECT_NEAR(cost, evaluator.cost(), 1e-12 * cost);
  const Eigen::VectorXd expected = evaluator.gradient();
  ASSERT_EQ(gradient.size(), static_cast<std::size_t>(expected.size()));
  const Eigen::Map<const Eigen::VectorXd> got(gradient.data(), expected.size());
  EXPECT_LE((got - expected).norm(), 1e-10 * expected.norm());
}

/// Adds the blocks in the order of x, the order of our arrays.
void add_blocks(ceres::Problem& problem, std::vector<double>& x) {
  for (std::size_t k = 0; k < x.size(); k += 3) problem.AddParameterBlock(&x[k], 3);
}

TEST(PeerFunctors, Springs) {
  const auto ours = problems::springs(7);
  problems::SpringGrid grid = problems::spring_grid(7);
  ceres::Problem theirs;
  add_blocks(theirs, grid.x);
  for (const problems::Spring& s : grid.springs) {
    if (s.b == problems::Spring::kAnchor) {
      theirs.AddResidualBlock(new AutoDiffCostFunction<bench::Target, 3, 3>(
                                  new bench::Target{1, {s.target[0], s.target[1], s.target[2]}}),
                              nullptr, &grid.x[3 * s.a]);
    } else {
      theirs.AddResidualBlock(
          new AutoDiffCostFunction<bench::Spring, 1, 3, 3>(new bench::Spring{s.rest}), nullptr,
          &grid.x[3 * s.a], &grid.x[3 * s.b]);
    }
  }
  expect_same(theirs, ours->problem);
}

TEST(PeerFunctors, Arap) {
  problems::TriangleMesh mesh = problems::icosphere(1);
  const auto ours = problems::arap(mesh);
  for (std::size_t k = 0; k < ours->rotations.size(); ++k)
    ours->rotations[k] = 0.2 * static_cast<double>(k % 5) - 0.3;
  std::vector<double> p = ours->positions, a = ours->rotations;
  const std::vector<double>& u = mesh.positions;
  ceres::Problem theirs;
  add_blocks(theirs, p);
  add_blocks(theirs, a);
  for (const auto& [i, j] : problems::directed_edges(mesh)) {
    theirs.AddResidualBlock(
        new AutoDiffCostFunction<bench::ArapEdge, 3, 3, 3, 3>(new bench::ArapEdge{
            {u[3 * i] - u[3 * j], u[3 * i + 1] - u[3 * j + 1], u[3 * i + 2] - u[3 * j + 2]}}),
        nullptr, &p[3 * i], &p[3 * j], &a[3 * i]);
  }
  for (const auto& [vertex, c] : problems::arap_pins(mesh)) {
    theirs.AddResidualBlock(new AutoDiffCostFunction<bench::Target, 3, 3>(
                                new bench::Target{problems::kPinWeight, {c[0], c[1], c[2]}}),
                            nullptr, &p[3 * vertex]);
  }
  expect_same(theirs, ours->problem);
}

TEST(PeerFunctors, Smooth) {
  const problems::TriangleMesh mesh = problems::icosphere(1);
  const auto ours = problems::smooth(mesh);
  for (std::size_t k = 0; k < ours->positions.size(); ++k)
    ours->positions[k] += 0.02 * static_cast<double>(k % 7);
  std::vector<double> x = ours->positions;
  const std::vector<double> fit = problems::noisy_positions(mesh);
  ceres::Problem theirs;
  add_blocks(theirs, x);
  for (std::size_t v = 0; v < mesh.vertex_count(); ++v) {
    theirs.AddResidualBlock(new AutoDiffCostFunction<bench::Target, 3, 3>(
                                new bench::Target{1, {fit[3 * v], fit[3 * v + 1], fit[3 * v + 2]}}),
                            nullptr, &x[3 * v]);
  }
  for (const problems::InteriorEdge& e : problems::interior_edges(mesh)) {
    theirs.AddResidualBlock(
        new AutoDiffCostFunction<bench::Smoothing, 3, 3, 3, 3, 3>(new bench::Smoothing), nullptr,
        &x[3 * e.from], &x[3 * e.to], &x[3 * e.left], &x[3 * e.right]);
  }
  expect_same(theirs, ours->problem);
}

TEST(PeerFunctors, Bundle) {
  const auto ours = problems::bundle({.cameras = 4, .points = 9, .observations = 36, .noise = 0.5});
  std::vector<double> cameras = ours->cameras, points = ours->points;
  ceres::Problem theirs;
  for (std::size_t k = 0; k < cameras.size(); k += 9) theirs.AddParameterBlock(&cameras[k], 9);
  add_blocks(theirs, points);
  for (const problems::Bundle::Observation& o : ours->observations) {
    theirs.AddResidualBlock(new AutoDiffCostFunction<bench::Observation, 2, 9, 3>(
                                new bench::Observation{{o.seen[0], o.seen[1]}}),
                            nullptr, &cameras[9 * o.camera], &points[3 * o.point]);
  }
  expect_same(theirs, ours->problem);
}

}  // namespace
}  // namespace topograd::test
