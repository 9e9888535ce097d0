// Conjugate gradients on a device stop where the interpreter's do, in every step of whole solves.
#include <gtest/gtest.h>

#include <topograd/solver/solve.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "problems/arap.hpp"
#include "problems/bundle.hpp"
#include "problems/springs.hpp"
#include "support/validation.hpp"

namespace topograd {
namespace {

class VulkanIterations : public test::VulkanTest {};

using Run = std::function<Summary(const SolverOptions&)>;

template <class Make>
Run solving(const Make& make) {
  return [make](const SolverOptions& options) {
    const auto made = make();
    return solve(made->problem, options);
  };
}

struct Row {
  const char* what;
  Run run;
  Preconditioner preconditioner;
  double linear_tolerance = 1e-5;  // in f32 the last digits of soft modes take iterations
};

std::vector<Row> rows() {
  const Run arap = solving([] { return problems::arap(problems::icosphere(2)); });
  const Run springs = solving([] { return problems::springs(10); });
  const Run bundle = solving([] {
    return problems::bundle({.cameras = 6, .points = 60, .observations = 200, .noise = 0.5});
  });
  return {{"arap, blocks", arap, Preconditioner::block_jacobi},
          {"arap, blocks, loose", arap, Preconditioner::block_jacobi, 1e-2},
          {"arap, two levels", arap, Preconditioner::two_level},
          {"springs, blocks", springs, Preconditioner::block_jacobi, 1e-2},
          {"springs, two levels", springs, Preconditioner::two_level, 1e-3},
          {"bundle, blocks", bundle, Preconditioner::block_jacobi, 1e-3}};
}

SolverOptions options_of(const Row& row) {
  return {.linear_solver = LinearSolver::pcg,
          .max_iterations = 6,
          .function_tolerance = 1e-9,
          .linear_tolerance = row.linear_tolerance,
          .max_linear_iterations = 1000,
          .preconditioner = row.preconditioner,
          .deterministic = true};
}

/// Each step within a tenth, of few iterations within three.
void expect_same_iterations(const Summary& device, const Summary& cpu) {
  EXPECT_EQ(device.backend, "vulkan") << device.why;
  EXPECT_EQ(device.kernels_on_cpu, 0u);
  EXPECT_EQ(cpu.backend, "cpu") << cpu.why;
  EXPECT_EQ(device.preconditioner, cpu.preconditioner);
  ASSERT_EQ(device.iterations.size(), cpu.iterations.size()) << device.message << cpu.message;
  int fewest = 1 << 30, most = 0;
  for (std::size_t k = 1; k < cpu.iterations.size(); ++k) {
    const int want = cpu.iterations[k].linear_iterations;
    EXPECT_NEAR(device.iterations[k].linear_iterations, want, std::max(3.0, 0.1 * want)) << k;
    fewest = std::min(fewest, device.iterations[k].linear_iterations);
    most = std::max(most, device.iterations[k].linear_iterations);
  }
  EXPECT_NEAR(device.num_linear_iterations, cpu.num_linear_iterations,
              0.1 * cpu.num_linear_iterations);
  EXPECT_LT(fewest, most);  // a fixed count is none that stops
}

TEST_F(VulkanIterations, OfEveryStepAreTheInterpreters) {
  TG_NEEDS(float64);
  for (const Row& row : rows()) {
    SolverOptions options = options_of(row);
    options.backend = Backend::cpu;
    const Summary cpu = row.run(options);
    options.backend = Backend::vulkan;
    for (const Precision precision : {Precision::f64, Precision::mixed}) {
      SCOPED_TRACE(row.what + (", " + std::string(name(precision))));
      options.precision = precision;
      expect_same_iterations(row.run(options), cpu);
    }
  }
}

}  // namespace
}  // namespace topograd
