// The block-Jacobi preconditioner on a device against Eigen's inverses.
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <random>

#include "vector_fixture.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::Precision;
using codegen::Scalar;
using codegen::slot;
using codegen::VectorOp;

// ----------------------------------------------------------------------------------

using Matrix = Eigen::MatrixXd;

std::vector<double> pack(const Matrix& matrix) {
  std::vector<double> out;
  for (int i = 0; i < matrix.rows(); ++i) {
    for (int j = i; j < matrix.cols(); ++j) out.push_back(matrix(i, j));
  }
  return out;
}

struct InvertedBlocks {
  std::uint32_t width, count = 37;
  std::vector<Matrix> matrices;
  std::vector<double> packed;
  std::vector<std::uint32_t> fixed;

  InvertedBlocks(std::uint32_t w, Precision precision) : width(w) {
    std::mt19937 random(w);
    std::uniform_real_distribution<double> number(-1, 1);
    for (std::uint32_t b = 0; b < count; ++b) {
      Matrix root(width, width);
      for (double& value : root.reshaped()) value = number(random);
      std::vector<double> entries =
          rounded(pack(root * root.transpose() + Matrix::Identity(width, width)), precision);
      packed.insert(packed.end(), entries.begin(), entries.end());
      Matrix block(width, width);
      std::size_t k = 0;
      for (std::uint32_t i = 0; i < width; ++i) {
        for (std::uint32_t j = i; j < width; ++j) block(i, j) = block(j, i) = entries[k++];
      }
      matrices.push_back(block);
    }
    for (std::uint32_t i = 0; i < width * count; ++i) fixed.push_back(i % 7 == 2 ? 1 : 0);
  }

  double scale(std::uint32_t b, std::uint32_t j) const {
    return 1 / (1 + std::sqrt(matrices[b](j, j)));
  }
  double damping(std::uint32_t b, std::uint32_t j) const {
    const double s = scale(b, j);
    return 0.3 * std::clamp(s * s * matrices[b](j, j), 0.3, 0.5) / (s * s);
  }
  bool is_fixed(bool masked, std::uint32_t b, std::uint32_t j) const {
    return masked && fixed[b * width + j] != 0;
  }

  /// Inverse of the damped block b.
  Matrix inverse(bool masked, std::uint32_t b) const {
    Matrix damped = matrices[b];
    for (std::uint32_t j = 0; j < width; ++j) {
      damped(j, j) += damping(b, j);
      if (!is_fixed(masked, b, j)) continue;
      damped.row(j).setZero();
      damped.col(j).setZero();
      damped(j, j) = 1;
    }
    return damped.inverse();
  }
};

class Preconditioner : public VectorKernels {};

TEST_F(Preconditioner, InvertsDampedBlocks) {
  for (const auto& [vectors, scalars] : pairs()) {
    for (const std::uint32_t width : {1u, 2u, 3u, 6u, 9u}) {
      if (width > 3 && vectors != scalars) continue;  // compilers are slow for wide blocks
      const bool masked = width % 2 == 1;
      const InvertedBlocks blocks(width, vectors);
      const std::uint32_t n = width * blocks.count;
      const auto x = numbers(n, vectors, 9);
      KernelRunner runner(device_);
      set_scalars(runner, scalars,
                  {{slot(Scalar::lambda), 0.3},
                   {slot(Scalar::min_diagonal), 0.3},
                   {slot(Scalar::max_diagonal), 0.5}});
      runner.set(BufferRole::blocks, vectors, blocks.packed);
      runner.set(BufferRole::scale, vectors, std::vector<double>(n));
      runner.set(BufferRole::damping, vectors, std::vector<double>(n));
      runner.set(BufferRole::inverse_blocks, vectors, std::vector<double>(blocks.packed.size()));
      runner.set(BufferRole::fixed_scalars, blocks.fixed);
      runner.set(BufferRole::first_operand, vectors, x);
      runner.set(BufferRole::result, vectors, std::vector<double>(n));
      for (const VectorOp op :
           {VectorOp::jacobi_scale, VectorOp::precondition, VectorOp::apply_preconditioner}) {
        runner.run_vector({.op = op, .vectors = vectors, .scalars = scalars, .width = width},
                          {.count = blocks.count, .masked = masked ? 1u : 0u}, 1);
      }
      const auto scale = runner.numbers(BufferRole::scale, vectors);
      const auto damping = runner.numbers(BufferRole::damping, vectors);
      const auto applied = runner.numbers(BufferRole::result, vectors);
      const double close = vectors == Precision::f32 ? 3e-5 : 1e-13;
      for (std::uint32_t b = 0; b < blocks.count; ++b) {
        const Eigen::VectorXd part = Eigen::Map<const Eigen::VectorXd>(x.data() + b * width, width);
        const Eigen::VectorXd want = blocks.inverse(masked, b) * part;
        for (std::uint32_t j = 0; j < width; ++j) {
          const std::uint32_t i = b * width + j;
          EXPECT_NEAR(scale[i], blocks.scale(b, j), close);
          EXPECT_NEAR(damping[i], blocks.is_fixed(masked, b, j) ? 0 : blocks.damping(b, j),
                      10 * close);
          EXPECT_NEAR(applied[i], want[j], 10 * close) << "width " << width << " block " << b;
        }
      }
    }
  }
}

TEST_F(Preconditioner, IndefiniteBlocksFallBackToTheirDiagonal) {
  KernelRunner runner(device_);
  set_scalars(runner, Precision::f32, {{slot(Scalar::max_diagonal), 1}});
  runner.set(BufferRole::fixed_scalars, std::vector<std::uint32_t>(4));
  runner.set(BufferRole::blocks, Precision::f32, std::vector<double>{4, 10, 2, -1, 0, 0.5});
  runner.set(BufferRole::scale, Precision::f32, std::vector<double>{1, 1, 1, 1});
  runner.set(BufferRole::damping, Precision::f32, std::vector<double>(4));
  runner.set(BufferRole::inverse_blocks, Precision::f32, std::vector<double>(6));
  runner.run_vector({.op = VectorOp::precondition,
                     .vectors = Precision::f32,
                     .scalars = Precision::f32,
                     .width = 2},
                    {.count = 2}, 1);
  // Entry k of both blocks is adjacent.
  const std::vector<double> got = runner.numbers(BufferRole::inverse_blocks, Precision::f32);
  const double want[] = {0.25, 1, 0, 0, 0.5, 2};
  for (std::size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-6) << k;
}

}  // namespace
}  // namespace topograd::test
