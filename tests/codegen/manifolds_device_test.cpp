// Vector kernels of blocks on manifolds on a device against Eigen.
#include <gtest/gtest.h>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>

#include "vector_fixture.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::Precision;
using codegen::Scalar;
using codegen::slot;
using codegen::VectorConstants;
using codegen::VectorOp;

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/// Blocks of some width, not adjacent, with a basis each.
struct Blocks {
  Blocks(std::uint32_t block_width, std::vector<double> basis_values, std::vector<double> numbers)
      : width(block_width),
        count(static_cast<std::uint32_t>(basis_values.size() / (width * width))),
        basis(std::move(basis_values)),
        vector(std::move(numbers)) {
    for (std::uint32_t b = 0; b < count; ++b) firsts.push_back(1 + (count - 1 - b) * (width + 2));
  }
  Matrix basis_of(std::uint32_t b) const {
    Matrix p(width, width);
    for (std::uint32_t i = 0; i < width; ++i)
      for (std::uint32_t j = 0; j < width; ++j) p(i, j) = basis[(i * width + j) * count + b];
    return p;
  }
  Vector block_of(std::uint32_t b) const {
    return Eigen::Map<const Vector>(vector.data() + firsts[b], width);
  }

  std::uint32_t width, count;
  std::vector<double> basis, vector;
  std::vector<std::uint32_t> firsts;
};

class ManifoldKernels : public VectorKernels {
 protected:
  static constexpr std::uint32_t kCount = 150;

  Blocks blocks(std::uint32_t width, Precision precision) const {
    return {width, numbers(std::size_t{width} * width * kCount, precision, 1),
            numbers(std::size_t{width + 2} * kCount + 2, precision, 2)};
  }
  /// Runs an op and returns the vector in `role`.
  std::vector<double> run(VectorOp op, const Blocks& on, Precision vectors, Precision scalars,
                          BufferRole role, const std::vector<double>& before) {
    KernelRunner runner(device_);
    set_scalars(runner, scalars, {{slot(Scalar::user), 0.5}});
    if (role != BufferRole::result || op == VectorOp::expand)
      runner.set(BufferRole::first_operand, vectors, on.vector);
    runner.set(BufferRole::second_operand, vectors, on.basis);
    runner.set(BufferRole::outputs, on.firsts);
    std::vector<std::uint32_t> starts(on.count);
    for (std::uint32_t b = 0; b < on.count; ++b) starts[b] = b * on.width * (on.width + 1) / 2;
    runner.set(BufferRole::starts, starts);
    runner.set(role, vectors, before);
    runner.run_vector({.op = op, .vectors = vectors, .scalars = scalars, .width = on.width},
                      {.count = on.count}, 2);
    return runner.numbers(role, vectors);
  }
};

double manifold_tolerance(Precision precision) {
  return precision == Precision::f32 ? 3e-5 : 1e-13;
}

TEST_F(ManifoldKernels, VectorsInBothDirections) {
  for (const auto& [vectors, scalars] : pairs()) {
    for (const std::uint32_t width : {1u, 3u, 4u, 16u}) {
      const Blocks on = blocks(width, vectors);
      const std::vector<double> untouched = numbers(on.vector.size(), vectors, 3);
      std::vector<double> expanded = untouched, contracted = on.vector;
      for (std::uint32_t b = 0; b < on.count; ++b) {
        Eigen::Map<Vector>(expanded.data() + on.firsts[b], width) = on.basis_of(b) * on.block_of(b);
        Eigen::Map<Vector>(contracted.data() + on.firsts[b], width) =
            on.basis_of(b).transpose() * on.block_of(b);
      }
      const auto forth = run(VectorOp::expand, on, vectors, scalars, BufferRole::result, untouched);
      const auto back =
          run(VectorOp::contract, on, vectors, scalars, BufferRole::result, on.vector);
      for (std::size_t k = 0; k < forth.size(); ++k) {
        EXPECT_NEAR(forth[k], expanded[k], manifold_tolerance(vectors)) << width << " " << k;
        EXPECT_NEAR(back[k], contracted[k], manifold_tolerance(vectors)) << width << " " << k;
      }
    }
  }
}

TEST_F(ManifoldKernels, PackedBlocksOfTangents) {
  for (const auto& [vectors, scalars] : pairs()) {
    for (const std::uint32_t width : {1u, 3u, 4u, 7u}) {
      const Blocks on = blocks(width, vectors);
      const std::uint32_t packed = width * (width + 1) / 2;
      const std::vector<double> before = numbers(std::size_t{packed} * on.count, vectors, 4);
      const auto got =
          run(VectorOp::contract_packed, on, vectors, scalars, BufferRole::blocks, before);
      for (std::uint32_t b = 0; b < on.count; ++b) {
        Matrix h(width, width);
        std::size_t at = std::size_t{b} * packed;
        for (std::uint32_t i = 0; i < width; ++i)
          for (std::uint32_t j = i; j < width; ++j) h(i, j) = h(j, i) = before[at++];
        const Matrix expected = on.basis_of(b).transpose() * h * on.basis_of(b);
        at = std::size_t{b} * packed;
        for (std::uint32_t i = 0; i < width; ++i)
          for (std::uint32_t j = i; j < width; ++j)
            EXPECT_NEAR(got[at++], expected(i, j), 20 * manifold_tolerance(vectors))
                << width << " " << b;
      }
    }
  }
}

/// Rows and columns of blocks within a matrix of rows of `length` numbers.
TEST_F(ManifoldKernels, VectorsWithinAMatrix) {
  constexpr std::uint32_t kVectors = 5;
  for (const auto& [vectors, scalars] : pairs()) {
    for (const std::uint32_t width : {1u, 3u, 7u}) {
      const Blocks on = blocks(width, vectors);
      const std::uint32_t length = std::max(width, kVectors) + 2;
      const std::uint32_t size = std::max(width, kVectors) * length;
      std::vector<std::uint32_t> words(4);  // the first item is skipped
      std::vector<double> expected = numbers(std::size_t{size} * on.count, vectors, 7);
      const std::vector<double> before = expected;
      for (std::uint32_t b = 0; b < on.count; ++b) {
        const std::uint32_t along = b % 2 == 0 ? 1 : length, across = b % 2 == 0 ? length : 1;
        const std::uint32_t basis = on.count - 1 - b;
        words.insert(words.end(), {b * size, along, across, basis});
        for (std::uint32_t v = 0; v < kVectors; ++v) {
          Vector from(width);
          for (std::uint32_t k = 0; k < width; ++k)
            from[k] = before[b * size + v * across + k * along];
          const Vector to = on.basis_of(basis).transpose() * from;
          for (std::uint32_t k = 0; k < width; ++k)
            expected[b * size + v * across + k * along] = to[k];
        }
      }
      KernelRunner runner(device_);
      set_scalars(runner, scalars, {});
      runner.set(BufferRole::result, vectors, before);
      runner.set(BufferRole::second_operand, vectors, on.basis);
      runner.set(BufferRole::outputs, words);
      runner.run_vector(
          {.op = VectorOp::contract_matrix, .vectors = vectors, .scalars = scalars, .width = width},
          {.count = on.count * kVectors, .first = 1, .a = kVectors, .b = on.count}, 2);
      const std::vector<double> got = runner.numbers(BufferRole::result, vectors);
      for (std::size_t k = 0; k < got.size(); ++k)
        ASSERT_NEAR(got[k], expected[k], manifold_tolerance(vectors)) << width << " " << k;
    }
  }
}

TEST_F(ManifoldKernels, RowsGoBackToTheirBlocks) {
  constexpr std::uint32_t kWidth = 3;
  for (const auto& [vectors, scalars] : pairs()) {
    const Blocks on = blocks(kWidth, vectors);
    const auto rows = numbers(std::size_t{kWidth} * on.count, vectors, 5);
    for (const bool with_vector : {false, true}) {
      const std::vector<double> untouched = numbers(on.vector.size(), vectors, 6);
      KernelRunner runner(device_);
      set_scalars(runner, scalars, {{slot(Scalar::user), 0.5}});
      runner.set(BufferRole::first_operand, vectors, rows);
      runner.set(BufferRole::second_operand, vectors, on.vector);
      runner.set(BufferRole::result, vectors, untouched);
      runner.set(BufferRole::outputs, on.firsts);
      const VectorConstants push{.count = on.count,
                                 .a = slot(Scalar::minus_one),
                                 .b = slot(with_vector ? Scalar::user : Scalar::zero)};
      runner.run_vector(
          {.op = VectorOp::scatter_rows, .vectors = vectors, .scalars = scalars, .width = kWidth},
          push, 2);
      std::vector<double> expected = untouched;
      for (std::uint32_t b = 0; b < on.count; ++b) {
        for (std::uint32_t j = 0; j < kWidth; ++j) {
          const std::size_t k = on.firsts[b] + j;
          expected[k] = -rows[j * on.count + b] + (with_vector ? 0.5 * on.vector[k] : 0);
        }
      }
      const auto got = runner.numbers(BufferRole::result, vectors);
      for (std::size_t k = 0; k < got.size(); ++k)
        EXPECT_NEAR(got[k], expected[k], vectors == Precision::f32 ? 5e-7 : 1e-15) << k;
    }
  }
}

}  // namespace
}  // namespace topograd::test
