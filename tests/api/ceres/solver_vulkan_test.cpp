// ceres::Solve on a device: linear solvers and their options have the CPU's meaning.
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

ceres::Solver::Options options_for(ceres::LinearSolverType type, Backend backend) {
  ceres::Solver::Options options;
  options.linear_solver_type = type;
  options.max_num_iterations = 8;
  options.topograd.backend = backend;
  return options;
}

/// Steps that a direct solver makes are the same whichever it is and wherever it runs; η does not
/// end them.
TEST_F(CeresVulkan, DirectSolversAreDirect) {
  TG_NEEDS(float64);
  const ceres::Solver::Summary expected = solve_bundle(options_for(ceres::DENSE_QR, Backend::cpu));
  for (const ceres::LinearSolverType type :
       {ceres::DENSE_NORMAL_CHOLESKY, ceres::DENSE_QR, ceres::SPARSE_NORMAL_CHOLESKY,
        ceres::DENSE_SCHUR, ceres::SPARSE_SCHUR}) {
    for (const Backend backend : {Backend::cpu, Backend::vulkan}) {
      SCOPED_TRACE(std::string(ceres::LinearSolverTypeToString(type)) + ", " +
                   std::string(name(backend)));
      ceres::Solver::Options options = options_for(type, backend);
      options.eta = 0.5;
      const ceres::Solver::Summary found = solve_bundle(options);
      EXPECT_EQ(found.topograd.backend, name(backend)) << found.topograd.why;
      ASSERT_EQ(found.iterations.size(), expected.iterations.size());
      for (std::size_t k = 1; k < found.iterations.size(); ++k) {
        EXPECT_NEAR(found.iterations[k].cost, expected.iterations[k].cost,
                    1e-6 * expected.iterations[k].cost)
            << k;
        EXPECT_NEAR(found.iterations[k].step_norm, expected.iterations[k].step_norm,
                    1e-4 * expected.iterations[k].step_norm)
            << k;
      }
    }
  }
}

TEST_F(CeresVulkan, LinearToleranceHasAnEffect) {
  TG_NEEDS(float64);
  int before = 0;
  for (const double tolerance : {1e-1, 1e-4, 1e-10}) {
    ceres::Solver::Options options = options_for(ceres::SPARSE_SCHUR, Backend::vulkan);
    options.max_num_iterations = 1;
    options.topograd.linear_tolerance = tolerance;
    const int iterations = solve_bundle(options).topograd.num_linear_iterations;
    EXPECT_GT(iterations, before) << tolerance;
    before = iterations;
  }
}

}  // namespace
}  // namespace topograd
