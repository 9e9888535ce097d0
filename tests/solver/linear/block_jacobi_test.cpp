// The block-Jacobi preconditioner of the interpreter.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace topograd {
namespace {

/// Linear residuals of blocks of this width that share nothing, so that JᵀJ has no other entries
/// than those of the blocks. Columns are in units that differ by 10⁴.
Summary solve_blocks(std::size_t width, Precision precision) {
  constexpr std::size_t kBlocks = 5;
  std::vector<double> x(kBlocks * width, 0.3);
  Problem problem;
  const Parameters unknowns = problem.add_parameters(x, width);
  for (std::size_t block = 0; block < kBlocks; ++block) {
    for (std::size_t row = 0; row < width + 2; ++row) {
      Value sum = Value(-std::sin(1.0 + static_cast<double>(row + 7 * block)));
      for (std::size_t k = 0; k < width; ++k) {
        const double unit = std::pow(10.0, static_cast<double>(k % 5) - 2);
        const double entry = std::cos(static_cast<double>(3 * row * row + 5 * k * row + k + block));
        sum = sum + unit * entry * unknowns(block, k);
      }
      problem.add_residual(sum);
    }
  }
  SolverOptions options{.backend = Backend::cpu, .max_iterations = 1};
  options.precision = precision;
  options.linear_solver = LinearSolver::pcg;
  options.preconditioner = Preconditioner::block_jacobi;
  options.linear_tolerance = 1e-4;
  return topograd::solve(problem, options);
}

// The inverse of the only blocks is the inverse of the matrix: one iteration solves the system.
TEST(BlockJacobi, IsTheInverseOfBlocksOfAnyWidth) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    for (std::size_t width = 1; width <= 16; ++width) {
      const Summary summary = solve_blocks(width, precision);
      ASSERT_EQ(summary.num_iterations(), 1) << summary.message;
      EXPECT_LE(summary.num_linear_iterations, precision == Precision::f64 ? 1 : 2)
          << "width " << width << ", " << name(precision);
    }
  }
}

}  // namespace
}  // namespace topograd
