// ceres::Solve on a device: options of iterative linear solvers have the CPU's meaning.
#include "../../../bench/peer_functors.hpp"

#include "../../../tools/problems/bundle.hpp"

#include <ceres/ceres.h>

#include <gtest/gtest.h>

#include <string>

#include "../../support/validation.hpp"

namespace topograd {
namespace {

class CeresVulkan : public test::VulkanTest {};

ceres::Solver::Summary solve_bundle(const ceres::Solver::Options& options) {
  const auto made =
      problems::bundle({.cameras = 6, .points = 60, .observations = 200, .noise = 0.5});
  ceres::Problem problem;
  for (const problems::Bundle::Observation& o : made->observations)
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<bench::Observation, 2, 9, 3>(
                                 new bench::Observation{{o.seen[0], o.seen[1]}}),
                             nullptr, &made->cameras[9 * o.camera], &made->points[3 * o.point]);
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return summary;
}

TEST_F(CeresVulkan, EtaEndsIterationsWhereItDoesOnTheCpu) {
  TG_NEEDS(float64);
  for (const ceres::LinearSolverType type : {ceres::ITERATIVE_SCHUR, ceres::CGNR}) {
    for (const double eta : {0.5, 0.1, 0.01}) {
      SCOPED_TRACE(std::string(ceres::LinearSolverTypeToString(type)) + ", eta " +
                   std::to_string(eta));
      ceres::Solver::Options options;
      options.linear_solver_type = type;
      options.preconditioner_type = type == ceres::CGNR ? ceres::JACOBI : ceres::SCHUR_JACOBI;
      options.eta = eta;
      options.max_num_iterations = 5;
      options.topograd.backend = Backend::cpu;
      const ceres::Solver::Summary cpu = solve_bundle(options);
      options.topograd.backend = Backend::vulkan;
      const ceres::Solver::Summary device = solve_bundle(options);
      EXPECT_EQ(device.topograd.backend, "vulkan") << device.topograd.why;
      EXPECT_NEAR(device.final_cost, cpu.final_cost, 1e-3 * cpu.final_cost);
      ASSERT_EQ(device.iterations.size(), cpu.iterations.size());
      for (std::size_t k = 1; k < cpu.iterations.size(); ++k)
        EXPECT_NEAR(device.iterations[k].linear_solver_iterations,
                    cpu.iterations[k].linear_solver_iterations, 1)
            << k;
    }
  }
}

}  // namespace
}  // namespace topograd
