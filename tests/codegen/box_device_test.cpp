// Vector kernels of steps within a box on a device against the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "vector_fixture.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::Precision;
using codegen::Scalar;
using codegen::slot;
using codegen::VectorConstants;
using codegen::VectorOp;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kSize = 700, kGroups = 3;

double tolerance(Precision precision) { return precision == Precision::f32 ? 1e-5 : 1e-12; }

/// Points inside a box, on its sides, and without one.
struct Box {
  Box(const std::vector<double>& points, Precision precision)
      : x(points), lower(x), upper(x), fixed(kSize) {
    for (std::uint32_t k = 0; k < kSize; ++k) {
      fixed[k] = k % 11 == 0 ? 1 : 0;
      lower[k] -= k % 3 == 0 ? 0 : 0.25;
      upper[k] += k % 3 == 1 ? 0 : 0.25;
      if (k % 7 == 0) lower[k] = -kInfinity;
      if (k % 5 == 0) upper[k] = kInfinity;
    }
    lower = rounded(lower, precision);
    upper = rounded(upper, precision);
  }
  double project(double v, std::uint32_t k) const { return std::clamp(v, lower[k], upper[k]); }

  std::vector<double> x, lower, upper;
  std::vector<std::uint32_t> fixed;
};

class BoxKernels : public VectorKernels {
 protected:
  void bind(KernelRunner& runner, const Box& box, Precision vectors, Precision scalars) {
    set_scalars(runner, scalars, {{slot(Scalar::user), 0.5}});
    runner.set(BufferRole::first_operand, vectors, box.x);
    runner.set(BufferRole::lower_bounds, vectors, box.lower);
    runner.set(BufferRole::upper_bounds, vectors, box.upper);
    runner.set(BufferRole::fixed_scalars, box.fixed);
    runner.set(BufferRole::partials, scalars, std::vector<double>(3 * kGroups));
  }
};

TEST_F(BoxKernels, NormsAreOfTheProjectedGradient) {
  for (const auto& [vectors, scalars] : pairs()) {
    const Box box(numbers(kSize, vectors, 1), vectors);
    const std::vector<double> g = numbers(kSize, vectors, 2);
    std::vector<double> kept = g;
    std::vector<std::uint32_t> held(kSize);
    double squares = 0, x_squares = 0, greatest = 0;
    for (std::uint32_t k = 0; k < kSize; ++k) {
      const double v = box.x[k] - box.project(box.x[k] - g[k], k);
      const bool stays =
          (box.x[k] == box.lower[k] && g[k] > 0) || (box.x[k] == box.upper[k] && g[k] < 0);
      held[k] = box.fixed[k] != 0 || stays ? 1 : 0;
      if (held[k] != 0) kept[k] = 0;
      if (box.fixed[k] != 0) continue;
      squares += v * v;
      x_squares += box.x[k] * box.x[k];
      greatest = std::max(greatest, std::fabs(v));
    }
    ASSERT_GT(std::ranges::count(held, 1u), kSize / 6);
    KernelRunner runner(device_);
    bind(runner, box, vectors, scalars);
    runner.set(BufferRole::gradient, vectors, g);
    runner.set(BufferRole::held_scalars, std::vector<std::uint32_t>(kSize, 7));
    const auto run = [&](VectorOp op, const VectorConstants& push, std::uint32_t groups) {
      runner.run_vector({.op = op, .vectors = vectors, .scalars = scalars}, push, groups);
    };
    run(VectorOp::bounded_norms, {.count = kSize, .out_stride = kGroups}, kGroups);
    run(VectorOp::sum_partials,
        {.count = kGroups, .out_stride = kGroups, .a = slot(Scalar::gradient_squared)}, 2);
    run(VectorOp::max_partials,
        {.count = kGroups, .out_first = 2 * kGroups, .a = slot(Scalar::gradient_max)}, 1);
    const auto got = runner.numbers(BufferRole::scalars, scalars);
    EXPECT_NEAR(got[slot(Scalar::gradient_squared)] / squares, 1, tolerance(vectors));
    EXPECT_NEAR(got[slot(Scalar::x_squared)] / x_squares, 1, tolerance(vectors));
    EXPECT_NEAR(got[slot(Scalar::gradient_max)] / greatest, 1, tolerance(vectors));
    EXPECT_EQ(runner.numbers(BufferRole::gradient, vectors), kept);
    EXPECT_EQ(runner.words(BufferRole::held_scalars), held);
  }
}

TEST_F(BoxKernels, TrialPointsAreProjected) {
  for (const auto& [vectors, scalars] : pairs()) {
    const Box box(numbers(kSize, vectors, 1), vectors);
    const auto step = numbers(kSize, vectors, 3), g = numbers(kSize, vectors, 4);
    const auto residual = numbers(kSize, vectors, 5), damping = numbers(kSize, vectors, 6);
    for (const Scalar length : {Scalar::one, Scalar::user}) {
      const double fraction = length == Scalar::one ? 1 : 0.5;
      std::vector<double> want(kSize);
      double decrease = 0, squares = 0, slope = 0;
      for (std::uint32_t k = 0; k < kSize; ++k) {
        want[k] = box.project(box.x[k] + fraction * step[k], k);
        decrease += step[k] * (residual[k] + damping[k] * step[k] - g[k]) / 2;
        squares += (want[k] - box.x[k]) * (want[k] - box.x[k]);
        slope += g[k] * step[k];
      }
      KernelRunner runner(device_);
      bind(runner, box, vectors, scalars);
      runner.set(BufferRole::delta, vectors, step);
      runner.set(BufferRole::gradient, vectors, g);
      runner.set(BufferRole::residual, vectors, residual);
      runner.set(BufferRole::damping, vectors, damping);
      runner.set(BufferRole::result, vectors, std::vector<double>(kSize));
      runner.run_vector({.op = VectorOp::bounded_trial, .vectors = vectors, .scalars = scalars},
                        {.count = kSize, .out_stride = kGroups, .a = slot(length)}, kGroups);
      runner.run_vector(
          {.op = VectorOp::sum_partials, .vectors = vectors, .scalars = scalars},
          {.count = kGroups, .out_stride = kGroups, .a = slot(Scalar::model_decrease)}, 3);
      const auto got = runner.numbers(BufferRole::scalars, scalars);
      const auto trial = runner.numbers(BufferRole::result, vectors);
      for (std::uint32_t k = 0; k < kSize; ++k) {
        EXPECT_NEAR(trial[k], want[k], vectors == Precision::f32 ? 1e-6 : 1e-15) << k;
        EXPECT_TRUE(trial[k] >= box.lower[k] && trial[k] <= box.upper[k]) << k;
      }
      EXPECT_NEAR(got[slot(Scalar::model_decrease)], decrease, tolerance(vectors) * kSize);
      EXPECT_NEAR(got[slot(Scalar::step_squared)], squares, tolerance(vectors) * kSize);
      EXPECT_NEAR(got[slot(Scalar::slope)], slope, tolerance(vectors) * kSize);
    }
  }
}

}  // namespace
}  // namespace topograd::test
