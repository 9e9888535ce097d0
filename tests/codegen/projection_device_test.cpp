// The projection to positive semidefinite matrices on a device against Eigen.
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernel_runner.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::Precision;
using Matrix = Eigen::MatrixXd;

/// Symmetric matrices of several kinds, with entries of about magnitude `scale`.
std::vector<Matrix> matrices(int n, double scale, Precision precision) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<Matrix> out;
  for (int k = 0; k < 12; ++k) {
    Matrix m(n, n);
    for (double& v : m.reshaped()) v = scale * number(random);
    m = ((m + m.transpose()) / 2).eval();
    if (k == 1) m = m * m.transpose() / scale;          // no negative eigenvalue
    if (k == 2) m = -m * m.transpose() / scale;         // no positive one
    if (k == 3) m = Matrix(m.diagonal().asDiagonal());  // nothing to rotate
    if (k == 4) m.setZero();
    if (k == 5) m = -scale * Matrix::Identity(n, n);          // one repeated eigenvalue
    if (k == 6) m = m.col(0) * m.col(0).transpose() / scale;  // rank one
    if (k == 7) m = -m.col(0) * m.col(0).transpose() / scale;
    if (k == 8) m *= 1e-6;
    for (double& v : m.reshaped()) v = rounded({v}, precision)[0];
    out.push_back(m);
  }
  return out;
}

/// Entry k of all packed triangles is adjacent.
std::vector<double> pack(const std::vector<Matrix>& all) {
  std::vector<double> out;
  for (int i = 0; i < all[0].rows(); ++i)
    for (int j = i; j < all[0].cols(); ++j)
      for (const Matrix& m : all) out.push_back(m(i, j));
  return out;
}

Matrix projected(const Matrix& m) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(m);
  return solver.eigenvectors() * solver.eigenvalues().cwiseMax(0.0).asDiagonal() *
         solver.eigenvectors().transpose();
}

class Projection : public KernelDeviceTest {
 protected:
  /// The blocks after the kernel has run over them, in two parts.
  std::vector<double> run(const std::vector<double>& packed, std::uint32_t count, std::uint32_t n,
                          Precision precision) {
    KernelRunner runner(device_);
    runner.set(BufferRole::blocks, precision, packed);
    runner.set(BufferRole::rotated, precision, std::vector<double>(packed.size()));
    runner.set(BufferRole::eigenvectors, precision,
               std::vector<double>(std::size_t{count} * n * n));
    const codegen::KernelSource source = codegen::generate(
        codegen::ProjectionRequest{.precision = precision,
                                   .float_controls_f32 = keeps_specials(Precision::f32),
                                   .float_controls_f64 = keeps_specials(Precision::f64)});
    const std::uint32_t half = count / 2;
    for (const auto& [first, end] : {std::pair(0u, half), std::pair(half, count)}) {
      for (const codegen::ProjectionConstants& run : codegen::projection_dispatches(
               {.count = end, .first = first, .stride = count, .width = n}))
        runner.run_projection(source, run, 1);
    }
    return runner.numbers(BufferRole::blocks, precision);
  }
};

TEST_F(Projection, TakesNegativeEigenvaluesOut) {
  for (const Precision precision : precisions()) {
    for (const int n : {1, 2, 3, 6, 9, 12, 21, 36}) {
      for (const double scale : {1.0, 1e4}) {
        const std::vector<Matrix> all = matrices(n, scale, precision);
        const auto count = static_cast<std::uint32_t>(all.size());
        const std::vector<double> packed = pack(all);
        const std::vector<double> got =
            run(packed, count, static_cast<std::uint32_t>(n), precision);
        const double unit = precision == Precision::f32 ? 6e-8 : 1.2e-16;
        std::vector<Matrix> want;
        for (const Matrix& m : all) want.push_back(projected(m));
        const std::vector<double> expected = pack(want);
        for (std::size_t k = 0; k < got.size(); ++k) {
          const Matrix& m = all[k % count];
          EXPECT_NEAR(got[k], expected[k], 12 * n * unit * m.cwiseAbs().maxCoeff())
              << "n " << n << ", matrix " << k % count << ", entry " << k / count;
          if (k % count == 3 || k % count == 4) {
            EXPECT_EQ(got[k], std::max(packed[k], 0.0));  // diagonal: nothing is rounded
          }
        }
      }
    }
  }
}

TEST_F(Projection, LeavesMatricesThatAreNotFinite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  // Entries xx, xy, yy of three matrices side by side; only the last is finite.
  const std::vector<double> got = run({-1, -2, -1, kNan, 0, 0, -1, kInf, 2}, 3, 2, Precision::f32);
  EXPECT_EQ(got[0], -1);
  EXPECT_TRUE(std::isnan(got[3]));
  EXPECT_EQ(got[1], -2);
  EXPECT_EQ(got[7], kInf);
  EXPECT_EQ(got[2], 0);
  EXPECT_EQ(got[8], 2);
}

}  // namespace
}  // namespace topograd::test
