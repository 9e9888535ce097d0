// The block-Jacobi preconditioner of the interpreter.
#include <gtest/gtest.h>

#include "../../../runtime/cpu/linear/conjugate_gradients.hpp"
#include "../../../runtime/cpu/linear/step_preconditioner.hpp"
#include "../../../runtime/cpu/terms/term_costs.hpp"
#include "../../../runtime/cpu/terms/term_index.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
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

// A diagonal entry that is no positive number counts as 1.
TEST(BlockJacobi, BlocksThatAreNotDefiniteAreInvertedByTheirDiagonal) {
  namespace cpu = runtime::cpu;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<runtime::ParameterArray> arrays = {{.offset = 0, .width = 3, .blocks = 2}};
  const cpu::BlockLayout layout(arrays);
  cpu::SumRanges sums(false, nullptr);
  sums.follow(layout, arrays);
  const std::vector<double> blocks = {4, 5, 0, 2, 0, -3, kInfinity, 0, 0, 8, 0, 0};
  const std::vector<double> none(6, 0.0), r = {1, 1, 1, 1, 1, 1};
  std::vector<double> z(6);
  auto matrix = cpu::product_by<double>([](const double*, double*) { return 0.0; });
  cpu::Pool pool(1);
  cpu::BlockJacobi<double> inverse;
  inverse.build(pool, {layout, sums, none.data(), blocks.data(), none.data(), {}, matrix});
  for (std::size_t k = 0; k < inverse.ranges(); ++k) inverse.apply(k, r.data(), z.data());
  EXPECT_EQ(z, (std::vector<double>{0.25, 0.5, 1, 1, 0.125, 1}));
}

}  // namespace
}  // namespace topograd
