// The problems on meshes on a Vulkan device: the same gradients and descents as on the interpreter.
#include <gtest/gtest.h>

#include "../../../api/formats/mesh/mesh.hpp"
#include "../../../codegen/spirv/shader_compiler.hpp"
#include "../../../runtime/plan/accumulation_rule.hpp"
#include "../../../runtime/plan/passes.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <string>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/developable.hpp"
#include "../../../tools/problems/smooth.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/paths.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

using problems::Developability;

class VulkanMeshes : public test::VulkanTest {};

problems::TriangleMesh perturbed(std::uint32_t subdivisions) {
  problems::TriangleMesh mesh = problems::icosphere(subdivisions);
  problems::perturb(mesh.positions, 1e-3, 7);
  return mesh;
}

void expect_same_gradient(Problem& problem) {
  Evaluator cpu(problem, {.backend = Backend::cpu}), device(problem, {.backend = Backend::vulkan});
  const Eigen::VectorXd want = cpu.gradient();
  EXPECT_LE((device.gradient() - want).norm(), 1e-10 * want.norm());
  EXPECT_NEAR(device.cost(), cpu.cost(), 1e-12 * std::abs(cpu.cost()));
}

/// Compiles the kernels of a problem to SPIR-V as a device would get them by rule, and if terms are
/// to be evaluated again for each block; compares their sizes with what drivers compile in 2 s.
void expect_small_kernels(const Problem& problem, const std::string& what) {
  constexpr std::size_t kMostBytes = 100'000;
  using runtime::Pass;
  constexpr Pass kPasses[] = {Pass::residual, Pass::cost,   Pass::jacobian, Pass::gradient,
                              Pass::values,   Pass::jtjp,   Pass::blocks,   Pass::cost_gradient,
                              Pass::hvp,      Pass::hessian};
  const runtime::Model model = make_model("test", problem).model;
  for (const runtime::Term& term : model.terms) {
    const runtime::TermShape shape = shape_of(term, model.arrays);
    for (const Pass pass : kPasses) {
      if (term.energy && !runtime::energies_take_part(pass)) continue;
      for (const codegen::Accumulation strategy :
           {choose_accumulation(estimate_accumulation(shape, pass, codegen::Precision::f64)),
            codegen::Accumulation::gather_recompute}) {
        for (auto& request : runtime::requests(term, model.arrays, pass, strategy)) {
          request.precision = codegen::Precision::f64;
          const codegen::KernelSource source = generate(request);
          EXPECT_LE(source.statements, 2300u) << what << " " << source.name;
          const std::size_t bytes = 4 * codegen::compile({source.name, source.glsl, {}}).size();
          EXPECT_LE(bytes, kMostBytes) << what << " " << source.name;
        }
      }
    }
  }
}

TEST(KernelSizes, StayBelowABound) {
  const problems::TriangleMesh mesh = perturbed(1);
  expect_small_kernels(problems::springs(9)->problem, "springs");
  expect_small_kernels(problems::arap(mesh)->problem, "arap");
  expect_small_kernels(problems::smooth(mesh)->problem, "smooth");
  expect_small_kernels(problems::multi(mesh)->problem, "multi");
  expect_small_kernels(problems::developable(mesh, Developability::covariance)->problem,
                       "covariance");
  expect_small_kernels(problems::developable(mesh, Developability::hinge)->problem, "hinge");
  expect_small_kernels(problems::bundle({.cameras = 5, .points = 60, .observations = 200})->problem,
                       "bundle");
}

TEST_F(VulkanMeshes, GradientOfSmoothing) {
  TG_NEEDS(float64);
  expect_same_gradient(
      problems::smooth(read_mesh(test::source_dir() / "samples/data/spot.obj"))->problem);
}

TEST_F(VulkanMeshes, GradientsOfDevelopability) {
  TG_NEEDS(float64);
  for (const Developability energy : {Developability::covariance, Developability::hinge}) {
    SCOPED_TRACE(std::string(name(energy)));
    expect_same_gradient(problems::developable(perturbed(2), energy)->problem);
  }
}

TEST_F(VulkanMeshes, GradientOfAllAtOnce) {
  TG_NEEDS(float64);
  expect_same_gradient(problems::multi(perturbed(1))->problem);
}

TEST_F(VulkanMeshes, MixedPrecisionEndsWhereF64Does) {
  TG_NEEDS(float64);
  SolverOptions options = {.backend = Backend::cpu,
                           .linear_solver = LinearSolver::cholesky,
                           .max_iterations = 100,
                           .function_tolerance = 1e-12,
                           .gradient_tolerance = 1e-12,
                           .parameter_tolerance = 1e-12};
  const double minimum = solve(problems::arap(perturbed(2))->problem, options).final_cost;
  options.backend = Backend::vulkan;
  options.precision = Precision::mixed;
  options.linear_solver = LinearSolver::pcg;
  const auto arap = problems::arap(perturbed(2));
  const Summary mixed = solve(arap->problem, options);
  EXPECT_EQ(mixed.backend, "vulkan");
  EXPECT_EQ(mixed.kernels_on_cpu, 0u);
  EXPECT_NEAR(mixed.final_cost, minimum, 1e-9 * minimum) << mixed.full_report();
}

// From a perturbed sphere, and from the symmetric one, whose smallest eigenvalues are double.
TEST_F(VulkanMeshes, DescentIsTheInterpretersForTenStepsAndHalvesTheEnergy) {
  TG_NEEDS(float64);
  for (const auto& mesh : {perturbed(1), problems::icosphere(1)}) {
    for (const Developability energy : {Developability::covariance, Developability::hinge}) {
      SCOPED_TRACE(std::string(name(energy)));
      SolverOptions options = {
          .method = Method::lbfgs, .max_iterations = 120, .function_tolerance = 1e-9};
      Summary ran[2];
      for (const Backend backend : {Backend::cpu, Backend::vulkan}) {
        const auto made = problems::developable(mesh, energy);
        options.backend = backend;
        Summary& summary = ran[backend == Backend::vulkan ? 1 : 0];
        summary = solve(made->problem, options);
        EXPECT_LT(summary.final_cost, summary.initial_cost / 2) << summary.message;
      }
      EXPECT_EQ(ran[1].kernels_on_cpu, 0u);
      for (std::size_t k = 0; k <= 10; ++k) {
        const double cost = ran[0].iterations.at(k).cost;
        EXPECT_NEAR(ran[1].iterations.at(k).cost, cost, 1e-6 * cost) << "step " << k;
      }
    }
  }
}

TEST_F(VulkanMeshes, NewtonReadsHessiansOfTheDevice) {
  TG_NEEDS(float64);
  double least[2];
  for (const Backend backend : {Backend::cpu, Backend::vulkan}) {
    const auto springs = problems::springs(6);
    const Summary summary = solve(springs->problem, {.backend = backend,
                                                     .method = Method::newton,
                                                     .max_iterations = 100,
                                                     .function_tolerance = 1e-12});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    least[backend == Backend::vulkan ? 1 : 0] = summary.final_cost;
  }
  EXPECT_NEAR(least[1], least[0], 1e-9 * least[0]);
}

}  // namespace
}  // namespace topograd
