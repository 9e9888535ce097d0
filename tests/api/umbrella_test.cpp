// <topograd/topograd.hpp> alone is enough for the manual's first examples.
#include <gtest/gtest.h>

#include "../../api/topograd.hpp"

#include <cmath>
#include <regex>
#include <string>

namespace tg = topograd;

namespace {

struct Edge {
  std::size_t a, b;
  double rest;
};

TEST(Umbrella, SpringsAsInTheManual) {
  std::vector<double> positions = {0, 0, 0, 1.3, 0.1, 0, 0.4, 1.2, 0.2};
  const Edge edges[] = {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}};

  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);
  for (const Edge& e : edges) {
    problem.add_residual(norm(x.vec3(e.a) - x.vec3(e.b)) - e.rest);
  }
  tg::Summary summary = tg::solve(problem, {.backend = tg::Backend::automatic});

  EXPECT_EQ(summary.termination, tg::Termination::CONVERGENCE) << summary.full_report();
  EXPECT_LT(summary.final_cost, 1e-12);
  EXPECT_EQ(summary.topologies.size(), 1u);
  for (const Edge& e : edges) {
    double square = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      square += std::pow(positions[3 * e.a + k] - positions[3 * e.b + k], 2);
    }
    EXPECT_NEAR(std::sqrt(square), e.rest, 1e-6);
  }
  tg::Evaluator evaluator(problem, {.backend = tg::Backend::cpu});
  EXPECT_DOUBLE_EQ(evaluator.cost(), summary.final_cost);
}

TEST(Umbrella, MapsMeetPlainValuesInOneTopology) {
  std::vector<double> x = {0.2, 0.9, 2.3, 2.8};
  const std::vector<std::uint32_t> ends = {0, 1, 1, 2};
  const std::vector<double> rest = {1, 1};
  tg::Problem problem;
  const tg::Parameters p = problem.add_parameters(x);
  problem.add_residuals(2,
                        [&](tg::Element e) { return e.scalar(p, 1) - e.scalar(p, 0) - e.data(0); },
                        {.indices = ends, .data = rest});
  problem.add_residual(p[3] - p[2] - 1.0);
  EXPECT_EQ(problem.topology_count(), 1u);
  const tg::Summary summary = tg::solve(problem, {.backend = tg::Backend::cpu});
  EXPECT_LT(summary.final_cost, 1e-12);
}

TEST(Umbrella, VersionIsOfTheProject) {
  EXPECT_TRUE(std::regex_match(std::string(tg::version()), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+")));
}

}  // namespace
