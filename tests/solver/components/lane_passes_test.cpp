// Passes over lanes: the same bits for every instruction set, and for one lane alone.
#include "../../../solver/components/lane_passes.hpp"

#include "../../../runtime/cpu/tiles/column.hpp"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace topograd {
namespace {

using Matrix = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;
using Vector = Eigen::Matrix<long double, Eigen::Dynamic, 1>;

constexpr std::size_t kLanesOfTest = 32;

/// Lanes with random systems.
struct Lanes {
  Lanes(std::uint32_t unknowns, bool bounded)
      : n(unknowns), triangle(std::size_t{n} * (n + 1) / 2) {
    const std::size_t columns = 2 * triangle + 12 * std::size_t{n} + 24;
    memory = runtime::cpu::Column<double>(columns * kLanesOfTest);
    std::fill_n(memory.data(), memory.size(), 0.0);
    double* next = memory.data();
    const auto take = [&](std::size_t count) {
      double* const first = next;
      next += count * kLanesOfTest;
      return first;
    };
    LaneNumbers& c = numbers;
    c.stride = kLanesOfTest;
    double *const lower = take(n), *const upper = take(n);
    for (double** const first :
         {&c.x, &c.here_x, &c.gradient, &c.here_gradient, &c.scale, &c.damping, &c.delta})
      *first = take(n);
    c.matrix = take(triangle);
    c.here_matrix = take(triangle);
    for (double** const first : {&c.doubled_cost,
                                 &c.scaled,
                                 &c.length,
                                 &c.cost,
                                 &c.gradient_max,
                                 &c.gradient_norm,
                                 &c.x_norm,
                                 &c.scaled_gradient_max,
                                 &c.scaled_gradient_norm,
                                 &c.scaled_x_norm,
                                 &c.scaled_step_norm,
                                 &c.step_norm,
                                 &c.arrives,
                                 &c.solves,
                                 &c.moves,
                                 &c.undetermined,
                                 &c.lambda,
                                 &c.solved,
                                 &c.vanished,
                                 &c.decrease,
                                 &c.slope,
                                 &c.hidden})
      *first = take(1);
    if (bounded) {
      c.lower = lower;
      c.upper = upper;
    }
    coordinates.resize(n);
    free.resize(n);
    std::iota(free.begin(), free.end(), 0U);
    for (std::uint32_t k = 0; k < n; ++k) coordinates[k].scalar = k;
    tested = {0, std::min<std::uint32_t>(n, 16)};
    shape = {.n = n,
             .scalars = n,
             .coordinates = coordinates.data(),
             .free = free.data(),
             .free_count = n,
             .tested = &tested,
             .tested_count = 1,
             .scale_free = true,
             .jacobi_scaling = true,
             .least_diagonal = 1,
             .most_diagonal = 1e32,
             .vanishing_damped = 1e-14,
             .vanishing_undamped = 1e-10};
    fill(lower, upper);
  }

  /// Every lane has its own Jacobian of 2 n rows; that of every eighth has equal columns.
  void fill(double* lower, double* upper) {
    std::mt19937_64 random(n);
    std::normal_distribution<double> normal;
    for (std::size_t l = 0; l < kLanesOfTest; ++l) {
      const auto size = static_cast<Eigen::Index>(n);
      Eigen::MatrixXd jacobian(2 * size, size);
      Eigen::VectorXd residuals(2 * size);
      for (Eigen::Index i = 0; i < jacobian.size(); ++i) jacobian.data()[i] = normal(random);
      for (Eigen::Index i = 0; i < residuals.size(); ++i) residuals[i] = normal(random);
      if (l % 8 == 5 && n > 1) jacobian.col(1) = jacobian.col(0);
      const Eigen::VectorXd g = jacobian.transpose() * residuals;
      const Eigen::MatrixXd h = jacobian.transpose() * jacobian;
      std::size_t entry = 0;
      for (Eigen::Index i = 0; i < size; ++i) {
        const std::size_t at = static_cast<std::size_t>(i) * kLanesOfTest + l;
        numbers.gradient[at] = g[i];
        numbers.x[at] = normal(random);
        numbers.here_x[at] = normal(random);
        numbers.delta[at] = normal(random);
        lower[at] = l % 3 == 0 ? numbers.x[at] : -std::numeric_limits<double>::infinity();
        upper[at] = l % 5 == 0 ? numbers.x[at] + 1 : std::numeric_limits<double>::infinity();
        for (Eigen::Index j = i; j < size; ++j)
          numbers.matrix[entry++ * kLanesOfTest + l] = h(i, j);
      }
      numbers.doubled_cost[l] = residuals.squaredNorm();
      numbers.length[l] = l % 2 == 0 ? 1 : 0.5;
      numbers.arrives[l] = numbers.solves[l] = numbers.moves[l] = l % 7 == 3 ? 0 : 1;
      numbers.lambda[l] = l % 4 == 0 ? 0 : std::abs(normal(random));
    }
  }

  void run(const LanePasses& passes) {
    runtime::cpu::Column<double> scratch(lane_scratch(n));
    passes.report(shape, numbers, 0, kLanesOfTest);
    passes.arrive(shape, numbers, scratch.data(), 0, kLanesOfTest);
    passes.solve(shape, numbers, scratch.data(), 0, kLanesOfTest);
    for (std::size_t l = 0; l < kLanesOfTest; ++l)  // what was not asked for means nothing
      for (double* const result :
           {numbers.solved, numbers.vanished, numbers.decrease, numbers.slope, numbers.hidden})
        if (numbers.solves[l] == 0) result[l] = 0;
    for (std::size_t l = 0; l < kLanesOfTest; ++l)
      if (numbers.arrives[l] == 0) numbers.undetermined[l] = 0;
    passes.move(shape, numbers, 0, kLanesOfTest);
    std::vector<std::uint32_t> lanes = {1, 2, 9, 10, 11, 12, 14, 17, 20, 22, 23};
    covariances.resize(lanes.size() * n * n);
    accurate.resize(lanes.size());
    passes.covariances(shape, numbers, scratch.data(), lanes.data(), lanes.size(),
                       covariances.data(), accurate.data());
  }

  std::uint32_t n;
  std::size_t triangle;
  runtime::cpu::Column<double> memory;
  LaneNumbers numbers;
  LaneShape shape;
  LaneShape::Block tested;
  std::vector<LaneShape::Coordinate> coordinates;
  std::vector<std::uint32_t> free;
  std::vector<double> covariances, accurate;
};

std::vector<std::uint64_t> bits_of(std::span<const double> numbers) {
  std::vector<std::uint64_t> out;
  for (const double v : numbers) out.push_back(std::isnan(v) ? 0 : std::bit_cast<std::uint64_t>(v));
  return out;
}

TEST(LanePasses, SameBitsForEveryInstructionSet) {
  for (const std::uint32_t n : {1U, 2U, 3U, 7U, 20U, 64U, 70U}) {
    for (const bool bounded : {false, true}) {
      SCOPED_TRACE(std::to_string(n) + (bounded ? " bounded" : ""));
      Lanes plain(n, bounded);
      plain.run(lane_passes_baseline());
      for (const LanePasses* const* passes = all_lane_passes(); *passes != nullptr; ++passes) {
        Lanes lanes(n, bounded);
        lanes.run(**passes);
        EXPECT_EQ(bits_of(lanes.memory), bits_of(plain.memory));
        EXPECT_EQ(bits_of(lanes.covariances), bits_of(plain.covariances));
        EXPECT_EQ(lanes.accurate, plain.accurate);
      }
    }
  }
}

TEST(LanePasses, OneLaneAloneHasTheBitsOfMany) {
  Lanes many(3, false), one(3, false);
  runtime::cpu::Column<double> scratch(lane_scratch(3));
  many.run(lane_passes());
  const LanePasses& passes = lane_passes();
  for (std::size_t l = 0; l < kLanesOfTest; ++l) passes.report_one(one.shape, one.numbers, l);
  passes.arrive(one.shape, one.numbers, scratch.data(), 0, kLanesOfTest);
  const std::vector<double> asked(one.numbers.solves, one.numbers.solves + kLanesOfTest);
  for (std::size_t l = 0; l < kLanesOfTest; ++l) {
    std::fill_n(one.numbers.solves, kLanesOfTest, 0.0);
    one.numbers.solves[l] = asked[l];
    passes.solve(one.shape, one.numbers, scratch.data(), 0, kLanesOfTest);
  }
  for (std::size_t l = 0; l < kLanesOfTest; ++l) {
    if (asked[l] == 0) continue;
    EXPECT_EQ(one.numbers.step_norm[l], many.numbers.step_norm[l]);
    EXPECT_EQ(one.numbers.decrease[l], many.numbers.decrease[l]);
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_EQ(one.numbers.delta[k * kLanesOfTest + l], many.numbers.delta[k * kLanesOfTest + l]);
  }
}

// Steps and covariances against long double.
TEST(LanePasses, SolvesDampedSystems) {
  for (const std::uint32_t n : {1U, 3U, 7U, 20U, 70U}) {
    Lanes lanes(n, false);
    lanes.run(lane_passes());
    const LaneNumbers& c = lanes.numbers;
    const auto size = static_cast<Eigen::Index>(n);
    for (std::size_t l = 0; l < kLanesOfTest; ++l) {
      SCOPED_TRACE(std::to_string(n) + " " + std::to_string(l));
      Matrix h(size, size);
      Vector g(size), delta(size);
      std::size_t entry = 0;
      for (Eigen::Index i = 0; i < size; ++i) {
        const std::size_t at = static_cast<std::size_t>(i) * kLanesOfTest + l;
        g[i] = c.gradient[at];
        delta[i] = c.delta[at];
        for (Eigen::Index j = i; j < size; ++j)
          h(i, j) = h(j, i) = c.matrix[entry++ * kLanesOfTest + l];
      }
      if (c.solves[l] == 0) continue;
      const bool singular = l % 8 == 5 && n > 1;
      EXPECT_EQ(c.undetermined[l], singular && n <= 16 ? 1 : c.undetermined[l]);
      if (singular && c.lambda[l] == 0) {
        EXPECT_TRUE(c.vanished[l] == 1 || c.solved[l] == 0);
        continue;
      }
      ASSERT_EQ(c.solved[l], 1);
      // The damping of a scaled system of unit diagonal is λ times its diagonal.
      Matrix damped = h;
      damped.diagonal() += static_cast<long double>(c.lambda[l]) * h.diagonal();
      const Vector expected = -damped.llt().solve(g);
      EXPECT_LT(static_cast<double>((delta - expected).norm()),
                (singular ? 1e-9 : 1e-11) * static_cast<double>(expected.norm()));
      const long double decrease = -g.dot(delta) - delta.dot(h * delta) / 2;
      EXPECT_NEAR(c.decrease[l], static_cast<double>(decrease),
                  1e-11 * static_cast<double>(std::abs(decrease)) + 1e-14);
    }
    Matrix h(size, size);
    const std::size_t l = 9;  // the third of the covariances
    std::size_t entry = 0;
    for (Eigen::Index i = 0; i < size; ++i)
      for (Eigen::Index j = i; j < size; ++j)
        h(i, j) = h(j, i) = c.matrix[entry++ * kLanesOfTest + l];
    const Matrix inverse = h.llt().solve(Matrix::Identity(size, size));
    ASSERT_EQ(lanes.accurate[2], 1);
    for (Eigen::Index i = 0; i < size; ++i)
      for (Eigen::Index j = 0; j < size; ++j)
        EXPECT_NEAR(lanes.covariances[(2 * n + static_cast<std::size_t>(i)) * n +
                                      static_cast<std::size_t>(j)],
                    static_cast<double>(inverse(i, j)),
                    1e-11 * static_cast<double>(inverse.diagonal().maxCoeff()));
  }
}

}  // namespace
}  // namespace topograd
