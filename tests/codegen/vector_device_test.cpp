// Vector kernels on a device against the host: plain operations, sums, norms.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "vector_fixture.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::Precision;
using codegen::Scalar;
using codegen::slot;
using codegen::VectorConstants;
using codegen::VectorKernelRequest;
using codegen::VectorOp;

constexpr std::uint32_t kSizes[] = {1, 2, 127, 128, 129, 1000};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint32_t kA = slot(Scalar::user), kB = kA + 1;

double tolerance(Precision precision) { return precision == Precision::f32 ? 3e-7 : 1e-15; }

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double relative,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], relative * std::max(1.0, std::fabs(want[i])))
        << what << " [" << i << "]";
  }
}

struct Combination {
  VectorOp op;
  VectorConstants slots;
  double (*want)(double a, double b, double y, bool fixed);  // a = 1.5, b = -0.25
};

TEST_F(VectorKernels, CombineElements) {
  const std::uint32_t zero = slot(Scalar::zero), one = slot(Scalar::one),
                      minus = slot(Scalar::minus_one);
  const Combination rows[] = {
      {VectorOp::fill, {.a = kA}, [](double, double, double, bool) { return 1.5; }},
      {VectorOp::copy, {}, [](double x, double, double, bool) { return x; }},
      {VectorOp::axpby,
       {.a = kA, .b = kB},
       [](double x, double, double y, bool) { return 1.5 * x - 0.25 * y; }},
      {VectorOp::axpby, {.a = minus, .b = zero}, [](double x, double, double, bool) { return -x; }},
      {VectorOp::axpby, {.a = zero, .b = one}, [](double, double, double y, bool) { return y; }},
      {VectorOp::combine,
       {.a = kA, .b = kB},
       [](double x, double z, double, bool) { return 1.5 * x - 0.25 * z; }},
      {VectorOp::mask, {}, [](double, double, double y, bool fixed) { return fixed ? 0 : y; }},
  };
  for (const auto& [vectors, scalars] : pairs()) {
    for (const Combination& row : rows) {
      for (const std::uint32_t size : kSizes) {
        const auto x = numbers(size + 5, vectors, 1), z = numbers(size + 5, vectors, 2);
        const auto y = numbers(size + 5, vectors, 3);
        std::vector<std::uint32_t> fixed(size + 5);
        for (std::size_t i = 0; i < fixed.size(); ++i) fixed[i] = i % 3 == 0 ? 1 : 0;
        KernelRunner runner(device_);
        set_scalars(runner, scalars, {{kA, 1.5}, {kB, -0.25}});
        runner.set(BufferRole::first_operand, vectors, x);
        runner.set(BufferRole::second_operand, vectors, z);
        runner.set(BufferRole::result, vectors, y);
        runner.set(BufferRole::fixed_scalars, fixed);
        VectorConstants push = row.slots;
        push.count = size;
        push.first = 2;
        // Two workgroups stride over everything.
        runner.run_vector({.op = row.op, .vectors = vectors, .scalars = scalars}, push, 2);
        std::vector<double> want = y;
        for (std::uint32_t i = 2; i < size + 2; ++i)
          want[i] = row.want(x[i], z[i], y[i], fixed[i] != 0);
        expect_near(runner.numbers(BufferRole::result, vectors), want, tolerance(vectors),
                    std::string(name(row.op)) + " " + std::to_string(size));
      }
    }
  }
}

TEST_F(VectorKernels, ConversionsRoundOnce) {
  for (const auto& [vectors, scalars] : pairs()) {
    for (const bool widens : {false, true}) {
      const Precision from = widens ? vectors : scalars, to = widens ? scalars : vectors;
      const std::vector<double> x = numbers(9, from, 1);
      KernelRunner runner(device_);
      runner.set(BufferRole::first_operand, from, x);
      runner.set(BufferRole::result, to, std::vector<double>(9));
      runner.run_vector({.op = widens ? VectorOp::widen : VectorOp::narrow,
                         .vectors = vectors,
                         .scalars = scalars},
                        {.count = 6, .first = 2}, 1);
      std::vector<double> want = rounded(x, to);
      for (const std::size_t k : {0, 1, 8}) want[k] = 0;
      EXPECT_EQ(runner.numbers(BufferRole::result, to), want);
    }
  }
}

TEST_F(VectorKernels, AFactorOfZeroReadsNothing) {
  KernelRunner runner(device_);
  set_scalars(runner, Precision::f32, {});
  runner.set(BufferRole::first_operand, Precision::f32, std::vector<double>{1, 2});
  runner.set(BufferRole::result, Precision::f32, std::vector<double>{kNan, kNan});
  runner.run_vector({.op = VectorOp::axpby, .vectors = Precision::f32, .scalars = Precision::f32},
                    {.count = 2, .a = slot(Scalar::minus_one)}, 1);
  EXPECT_EQ(runner.numbers(BufferRole::result, Precision::f32), (std::vector<double>{-1, -2}));
}

TEST_F(VectorKernels, PredicatedOnesStopWithTheSolver) {
  for (const double state : {0.0, 2.0}) {
    KernelRunner runner(device_);
    set_scalars(runner, Precision::f32, {{slot(Scalar::state), state}});
    runner.set(BufferRole::result, Precision::f32, std::vector<double>{5, 5});
    runner.run_vector({.vectors = Precision::f32, .scalars = Precision::f32, .predicated = true},
                      {.count = 2}, 1);
    const double want = state == 0 ? 1 : 5;
    EXPECT_EQ(runner.numbers(BufferRole::result, Precision::f32),
              (std::vector<double>{want, want}));
  }
}

// Pairs of floats have 48 bits, and the size that conjugate gradients know keeps products in range.
TEST_F(VectorKernels, CurvaturesAreAsExactInAllUnits) {
  constexpr std::uint32_t kSize = 1000, kGroups = 2;
  for (const auto& [vectors, scalars] : pairs()) {
    for (const auto& [unit_p, unit_q] :
         {std::pair{1.0, 1.0}, {1e-25, 1e-14}, {1e20, 1e17}, {1e-30, 1e30}}) {
      const bool plain = vectors == Precision::f32 && scalars == Precision::f32;
      if (plain && unit_p != 1) continue;
      auto p = numbers(kSize, vectors, 8), q = numbers(kSize, vectors, 9);
      for (double& x : p) x *= unit_p;
      for (double& x : q) x *= unit_q;
      p = rounded(p, vectors);
      q = rounded(q, vectors);
      long double sum = 0, size = 0;
      for (std::uint32_t i = 0; i < kSize; ++i) {
        sum += static_cast<long double>(p[i]) * q[i];
        size += fabsl(static_cast<long double>(p[i]) * q[i]);
      }
      KernelRunner runner(device_);
      runner.set(BufferRole::direction, vectors, p);
      runner.set(BufferRole::damping, vectors, std::vector<double>(kSize));
      runner.set(BufferRole::product, vectors, q);
      std::vector<double> decision(codegen::kScalarCount);
      decision[slot(Scalar::rz)] = 1e3 * unit_p * unit_q;
      runner.set(BufferRole::decision, scalars, decision);
      runner.set(BufferRole::curvature, scalars, std::vector<double>(kGroups));
      runner.run_vector({.op = VectorOp::cg_curvature, .vectors = vectors, .scalars = scalars},
                        {.count = kSize}, kGroups);
      const std::vector<double> got = runner.numbers(BufferRole::curvature, scalars);
      const double error = static_cast<double>(fabsl((sum - got[0] - got[1]) / size));
      EXPECT_LE(error, plain ? 3e-7 : 1e-13) << unit_p << " " << unit_q;
    }
  }
}

TEST_F(VectorKernels, DotsAndMaximaInTwoStages) {
  for (const auto& [vectors, scalars] : pairs()) {
    for (const std::uint32_t size : kSizes) {
      for (const bool masked : {false, true}) {
        const auto x = numbers(size, vectors, 4), y = numbers(size, vectors, 5);
        std::vector<std::uint32_t> fixed(size);
        long double dot = 0;
        double greatest = 0;
        for (std::uint32_t i = 0; i < size; ++i) {
          fixed[i] = i % 4 == 1 ? 1 : 0;
          if (masked && fixed[i] != 0) continue;
          dot += static_cast<long double>(x[i]) * y[i];
          greatest = std::max(greatest, std::fabs(x[i]));
        }
        KernelRunner runner(device_);
        set_scalars(runner, scalars, {});
        runner.set(BufferRole::first_operand, vectors, x);
        runner.set(BufferRole::second_operand, vectors, y);
        runner.set(BufferRole::fixed_scalars, fixed);
        runner.set(BufferRole::partials, scalars, std::vector<double>(16));
        const auto run = [&](VectorOp op, VectorConstants push, std::uint32_t groups) {
          push.masked = masked ? 1 : 0;
          runner.run_vector({.op = op, .vectors = vectors, .scalars = scalars}, push, groups);
        };
        run(VectorOp::dot, {.count = size, .out_first = 1}, 3);
        run(VectorOp::sum_partials, {.count = 3, .out_first = 1, .a = kA}, 1);
        run(VectorOp::max_abs, {.count = size, .out_first = 8}, 3);
        run(VectorOp::max_partials, {.count = 3, .out_first = 8, .a = kB}, 1);
        const auto got = runner.numbers(BufferRole::scalars, scalars);
        EXPECT_NEAR(got[kA], static_cast<double>(dot),
                    (scalars == Precision::f32 ? 3e-6 : 1e-13) * size);
        EXPECT_EQ(got[kB], greatest);
      }
    }
  }
}

TEST_F(VectorKernels, MaximumOfNanIsNan) {
  for (const std::uint32_t at : {0u, 77u, 199u}) {
    std::vector<double> x = numbers(200, Precision::f32, 6);
    x[at] = kNan;
    KernelRunner runner(device_);
    set_scalars(runner, Precision::f32, {});
    runner.set(BufferRole::first_operand, Precision::f32, x);
    runner.set(BufferRole::fixed_scalars, std::vector<std::uint32_t>(200));
    runner.set(BufferRole::partials, Precision::f32, std::vector<double>(2));
    VectorKernelRequest request{
        .op = VectorOp::max_abs, .vectors = Precision::f32, .scalars = Precision::f32};
    runner.run_vector(request, {.count = 200}, 2);
    request.op = VectorOp::max_partials;
    runner.run_vector(request, {.count = 2, .a = kA}, 1);
    EXPECT_TRUE(std::isnan(runner.numbers(BufferRole::scalars, Precision::f32)[kA])) << at;
  }
}

TEST_F(VectorKernels, SegmentsAreSummedInOrder) {
  for (const std::uint32_t overwrite : {0u, 1u}) {
    KernelRunner runner(device_);
    runner.set(BufferRole::first_operand, Precision::f32,
               std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
    runner.set(BufferRole::starts, std::vector<std::uint32_t>{0, 3, 3, 4});
    runner.set(BufferRole::outputs, std::vector<std::uint32_t>{2, 0, 1});
    runner.set(BufferRole::result, Precision::f32, std::vector<double>{9, 10, 20, 30, 40, 50, 60});
    runner.run_vector({.op = VectorOp::segment_sum, .vectors = Precision::f32, .width = 2},
                      {.count = 3, .first = 1, .overwrite = overwrite}, 1);
    const std::vector<double> stored = {9, 0, 0, 7, 8, 9, 12}, added = {9, 10, 20, 37, 48, 59, 72};
    EXPECT_EQ(runner.numbers(BufferRole::result, Precision::f32), overwrite != 0 ? stored : added);
  }
}

TEST_F(VectorKernels, PointNormsMaskTheGradient) {
  for (const auto& [vectors, scalars] : pairs()) {
    const std::uint32_t size = 1000;
    const auto x = numbers(size, vectors, 7), g = numbers(size, vectors, 8);
    std::vector<std::uint32_t> fixed(size);
    std::vector<double> kept = g;
    double gradient = 0, point = 0, greatest = 0;
    for (std::uint32_t i = 0; i < size; ++i) {
      fixed[i] = i % 5 == 0 ? 1 : 0;
      if (fixed[i] != 0) kept[i] = 0;
      if (fixed[i] == 0) gradient += g[i] * g[i], point += x[i] * x[i];
      if (fixed[i] == 0) greatest = std::max(greatest, std::fabs(g[i]));
    }
    KernelRunner runner(device_);
    set_scalars(runner, scalars, {});
    runner.set(BufferRole::first_operand, vectors, x);
    runner.set(BufferRole::gradient, vectors, g);
    runner.set(BufferRole::fixed_scalars, fixed);
    runner.set(BufferRole::partials, scalars, std::vector<double>(12));
    const auto run = [&](VectorOp op, VectorConstants push, std::uint32_t groups) {
      push.masked = 1;
      runner.run_vector({.op = op, .vectors = vectors, .scalars = scalars}, push, groups);
    };
    run(VectorOp::point_norms, {.count = size, .out_stride = 4}, 4);
    // Two sums in one dispatch, then the maximum.
    run(VectorOp::sum_partials, {.count = 4, .out_stride = 4, .a = slot(Scalar::gradient_squared)},
        2);
    run(VectorOp::max_partials, {.count = 4, .out_first = 8, .a = slot(Scalar::gradient_max)}, 1);
    const auto got = runner.numbers(BufferRole::scalars, scalars);
    EXPECT_NEAR(got[slot(Scalar::gradient_squared)] / gradient, 1, tolerance(scalars) * 10);
    EXPECT_NEAR(got[slot(Scalar::x_squared)] / point, 1, tolerance(scalars) * 10);
    EXPECT_EQ(got[slot(Scalar::gradient_max)], greatest);
    EXPECT_EQ(runner.numbers(BufferRole::gradient, vectors), kept);
  }
}

}  // namespace
}  // namespace topograd::test
