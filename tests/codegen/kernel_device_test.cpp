// Every form of generated kernels on a device against the evaluator: odd sizes, all strategies.
#include "../../autodiff/derivatives.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/program.hpp"
#include "../../runtime/vulkan/recording/context.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel_requests.hpp"
#include "kernel_runner.hpp"
#include "spring_set.hpp"

namespace topograd::test {
namespace {

using codegen::Accumulation;
using codegen::AccumulationRow;
using codegen::BufferRole;
using codegen::generate;
using codegen::kAccumulations;
using codegen::KernelRequest;
using codegen::KernelSource;
using codegen::Precision;
using ir::Op;

constexpr std::uint32_t kSizes[] = {1, 2, 127, 128, 129, 1000};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double tolerance(Precision precision) { return precision == Precision::f32 ? 2e-6 : 4e-15; }

void expect_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double norm = 0, difference = 0;
  for (std::size_t k = 0; k < got.size(); ++k) {
    norm += want[k] * want[k];
    difference += (got[k] - want[k]) * (got[k] - want[k]);
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm)) << what;
}

class KernelForms : public KernelDeviceTest {
 protected:
  std::vector<double> scatter(const SpringSet& set, Precision precision,
                              Accumulation accumulation) {
    KernelRunner runner(device_);
    set.set_instances(runner, precision);
    runner.set(BufferRole::results, precision, std::vector<double>(set.x.size()));
    runner.run(generate(with_controls(springs_gradient_scatter(precision, accumulation))),
               {.count = set.count, .stride = set.count}, groups_of(set.count, 128));
    return runner.numbers(BufferRole::results, precision);
  }

  bool can_scatter(Precision precision, Accumulation accumulation) const {
    return runtime::vulkan::choose_accumulation(accumulation, precision, device_->features())
               .accumulation == accumulation;
  }

  std::vector<double> gather(const SpringSet& set, Precision precision,
                             const KernelRequest& request, bool overwrite) {
    KernelRunner runner(device_);
    set.set_entries(runner, precision);
    runner.set(BufferRole::results, precision,
               std::vector<double>(set.x.size(), overwrite ? kNan : 0.5));
    const auto entries = 2 * set.count;
    runner.run(generate(with_controls(request)),
               {.count = set.vertices, .stride = entries, .overwrite = overwrite ? 1u : 0u},
               groups_of(set.vertices, request.workgroup_size));
    return runner.numbers(BufferRole::results, precision);
  }
};

TEST_F(KernelForms, StoresEveryInstance) {
  for (const Precision precision : precisions()) {
    for (const std::uint32_t size : kSizes) {
      const SpringSet set(size, precision);
      KernelRunner runner(device_);
      set.set_instances(runner, precision);
      runner.set(BufferRole::results, precision, std::vector<double>(size + 1, -77));
      // In two parts, as a long batch is dispatched.
      const std::uint32_t half = size / 2;
      const KernelSource source = generate(with_controls(springs_residual(precision)));
      runner.run(source, {.count = half, .stride = size}, groups_of(half, 128));
      runner.run(source, {.count = size, .first = half, .stride = size},
                 groups_of(size - half, 128));
      const std::vector<double> got = runner.numbers(BufferRole::results, precision);
      for (std::uint32_t i = 0; i < size; ++i) {
        const double want = set.evaluate(springs(), i)[0];
        EXPECT_NEAR(got[i], want, tolerance(precision))
            << name(precision) << " " << size << " " << i;
      }
      EXPECT_EQ(got[size], -77);
    }
  }
}

TEST_F(KernelForms, ScattersAddUp) {
  const ir::Program gradient =
      springs_gradient_scatter(Precision::f64, Accumulation::atomic_cas).program;
  for (const Precision precision : precisions()) {
    for (const AccumulationRow& row : kAccumulations) {
      if (!row.atomic || !can_scatter(precision, row.value)) continue;
      for (const std::uint32_t size : kSizes) {
        const SpringSet set(size, precision);
        expect_close(scatter(set, precision, row.value), set.sums(gradient), tolerance(precision),
                     std::string(row.name) + " " + std::string(name(precision)) + " " +
                         std::to_string(size));
      }
    }
  }
}

// A NaN is unequal to itself; the loop of compare-and-swap must still end.
TEST_F(KernelForms, ScatterOfNanEnds) {
  for (const Precision precision : precisions()) {
    if (!can_scatter(precision, Accumulation::atomic_cas)) continue;
    SpringSet set(1000, precision);
    set.rest[3] = kNan;
    const std::vector<double> got = scatter(set, precision, Accumulation::atomic_cas);
    for (std::uint32_t k = 0; k < got.size(); ++k) {
      const bool touched = k / 3 == set.a[3] / 3 || k / 3 == set.b[3] / 3;
      EXPECT_EQ(std::isnan(got[k]), touched) << k;
    }
  }
}

TEST_F(KernelForms, GathersAddUpAndRepeatBitForBit) {
  for (const Precision precision : precisions()) {
    for (const std::uint32_t size : kSizes) {
      const SpringSet set(size, precision);
      const std::string what = std::string(name(precision)) + " " + std::to_string(size);
      const auto gradient = springs_gradient_gather(precision);
      const auto scattered =
          springs_gradient_scatter(Precision::f64, Accumulation::atomic_cas).program;
      const std::vector<double> got = gather(set, precision, gradient, true);
      expect_close(got, set.sums(scattered), tolerance(precision), "gradient " + what);
      EXPECT_EQ(got, gather(set, precision, gradient, true)) << what;
      std::vector<double> added = gather(set, precision, gradient, false);
      for (double& value : added) value -= 0.5;
      expect_close(added, got, precision == Precision::f32 ? 1e-6 : 1e-15, "added " + what);
      const auto product = springs_jtjp_scatter(Precision::f64).program;
      expect_close(gather(set, precision, springs_jtjp_gather(precision), true), set.sums(product),
                   tolerance(precision), "jtjp " + what);
    }
  }
}

// Roots and functions of the block alone are evaluated before the loop over its entries.
TEST_F(KernelForms, WhatDependsOnTheBlockAloneIsEvaluatedOnce) {
  const ir::Program gradient = autodiff::gradient(scaled(), autodiff::all_slots(scaled()));
  for (const Precision precision : precisions()) {
    const SpringSet set(1000, precision);
    const KernelRequest request = scaled_gradient_gather(precision);
    expect_close(gather(set, precision, request, true), set.sums(gradient), tolerance(precision),
                 std::string(name(precision)));
    const std::string source = generate(request).glsl;
    EXPECT_LT(source.find("sqrt("), source.find("for (uint e = starts[w * 2u];"));
  }
}

// A workgroup's invocations take a block's entries in turn; the tree that sums their results may
// run in rounds, which changes no bit.
TEST_F(KernelForms, WorkgroupsShareTheEntriesOfAnItem) {
  for (const Precision precision : precisions()) {
    const SpringSet set(1000, precision);
    const std::vector<double> want =
        set.sums(springs_gradient_scatter(Precision::f64, Accumulation::atomic_cas).program);
    for (const std::uint32_t size : {1u, 2u, 32u, 128u}) {
      SCOPED_TRACE(std::string(name(precision)) + " " + std::to_string(size));
      KernelRequest request = springs_gradient_gather(precision);
      request.workgroup_size = size;
      request.workgroup_items = true;
      const auto run = [&](std::uint32_t tree_bytes, bool overwrite) {
        request.tree_bytes = tree_bytes;
        KernelRunner runner(device_);
        set.set_entries(runner, precision);
        runner.set(BufferRole::results, precision,
                   std::vector<double>(set.x.size(), overwrite ? kNan : 0.5));
        runner.run(generate(with_controls(request)),
                   {.count = set.vertices, .stride = 2 * set.count, .overwrite = overwrite},
                   set.vertices + 3);
        return runner.numbers(BufferRole::results, precision);
      };
      const std::vector<double> got = run(8192, true);
      expect_close(got, want, tolerance(precision), "gradient");
      for (const std::uint32_t bytes : {16u, 2048u}) EXPECT_EQ(run(bytes, true), got) << bytes;
      std::vector<double> added = run(8192, false);
      for (double& value : added) value -= 0.5;
      expect_close(added, got, precision == Precision::f32 ? 1e-6 : 1e-15, "added");
    }
  }
}

TEST_F(KernelForms, StoredTermsGiveTheGathersBits) {
  for (const Precision precision : precisions()) {
    const SpringSet set(1000, precision);
    KernelRunner runner(device_);
    set.set_instances(runner, precision);
    KernelRequest store = springs_gradient_scatter(precision, Accumulation::atomic_cas);
    store.form = codegen::Form::store;
    runner.set(BufferRole::results, precision, std::vector<double>(6 * 1000));
    runner.run(generate(with_controls(store)), {.count = 1000, .stride = 1000, .out_stride = 1000},
               8);
    const std::vector<double> terms = runner.numbers(BufferRole::results, precision);
    set.set_entries(runner, precision);
    runner.set(BufferRole::terms, precision, terms);
    runner.set(BufferRole::results, precision, std::vector<double>(set.x.size()));
    runner.run(generate(with_controls(springs_sum_terms(precision))),
               {.count = set.vertices, .out_stride = 1000, .overwrite = 1},
               groups_of(set.vertices, 128));
    EXPECT_EQ(runner.numbers(BufferRole::results, precision),
              gather(set, precision, springs_gradient_gather(precision), true));
  }
}

TEST_F(KernelForms, CostsAreSummedInTheWidestPrecision) {
  for (const Precision precision : precisions()) {
    for (const std::uint32_t size : kSizes) {
      const SpringSet set(size, precision);
      long double want = 0;
      for (std::uint32_t i = 0; i < size; ++i)
        want += set.evaluate(springs_cost(precision).program, i)[0];
      for (const std::uint32_t workgroup : {1u, 64u, 256u}) {
        for (const bool wide : {false, true}) {
          for (const bool subgroups : {false, true}) {
            if (wide && !device_->features().float64) continue;
            if (subgroups && !device_->features().subgroup_arithmetic) continue;
            KernelRequest request = springs_cost(precision);
            request.workgroup_size = workgroup;
            request.wide_sums = wide;
            request.use_subgroups = subgroups;
            const Precision sums = wide ? Precision::f64 : precision;
            // Three workgroups process all instances in strides.
            KernelRunner runner(device_);
            set.set_instances(runner, precision);
            runner.set(BufferRole::results, sums, std::vector<double>{-1, kNan, kNan, kNan, -1});
            runner.run(generate(with_controls(request)),
                       {.count = size, .stride = size, .out_first = 1}, 3);
            const std::vector<double> partials = runner.numbers(BufferRole::results, sums);
            EXPECT_EQ(partials[0], -1);
            EXPECT_EQ(partials[4], -1);
            const double got = partials[1] + partials[2] + partials[3];
            EXPECT_NEAR(got / static_cast<double>(want), 1,
                        precision == Precision::f32 ? 1e-6 : 1e-14)
                << name(precision) << " " << size << " workgroup " << workgroup << " wide " << wide;
          }
        }
      }
    }
  }
}

// 2^25 halves: plain f32 addition would stop growing or round; compensated sums are exact.
TEST_F(KernelForms, NarrowSumsKeepTheirRoundingErrors) {
  ir::Graph g;
  KernelRequest request;
  request.name = "tenths";
  request.form = codegen::Form::reduce;
  request.precision = Precision::f32;
  request.program = g.extract(std::vector{g.leaf(Op::Data, 0)}, {.data = 1});
  request.layout = codegen::general_layout(request.program.leaves);
  const std::uint32_t count = 100000;
  KernelRunner runner(device_);
  runner.set(BufferRole::data_columns, Precision::f32, std::vector<double>(count, 0.1));
  runner.set(BufferRole::results, Precision::f32, std::vector<double>(1));
  runner.run(generate(with_controls(request)), {.count = count, .stride = count}, 1);
  const double want = count * static_cast<double>(0.1f);
  EXPECT_EQ(runner.numbers(BufferRole::results, Precision::f32)[0],
            static_cast<double>(static_cast<float>(want)));
}

TEST_F(KernelForms, FailedGuardsAreCounted) {
  ir::Graph g;
  const ir::Id d = g.leaf(Op::Data, 0);
  const ir::Guard guards[] = {{g.add(Op::Gt, d, g.literal(2)), true},
                              {g.add(Op::Eq, d, g.literal(7)), false}};
  KernelRequest request;
  request.name = "guarded";
  request.form = codegen::Form::reduce;
  request.precision = Precision::f32;
  request.program = g.extract(std::vector{d}, {.data = 1}, guards);
  request.layout = codegen::general_layout(request.program.leaves);
  KernelRunner runner(device_);
  runner.set(BufferRole::data_columns, Precision::f32,
             std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  runner.set(BufferRole::results, Precision::f32, std::vector<double>(1));
  runner.set(BufferRole::failures, std::vector<std::uint32_t>{0});
  runner.run(generate(with_controls(request)), {.count = 10, .stride = 10}, 1);
  EXPECT_EQ(runner.words(BufferRole::failures)[0], 4u);  // 0, 1, 2 and 7
  EXPECT_EQ(runner.numbers(BufferRole::results, Precision::f32)[0], 45);
}

/// Two products of each of ten denominators d_10+i + 2 are summed first, then quotients √d_i /
/// (d_19-i + 2). Each summand is lengthened 15 times: v becomes √(v² + a).
ir::Program quotients() {
  constexpr std::uint32_t kCount = 10;
  ir::Graph g;
  const auto datum = [&](std::uint32_t slot) { return g.leaf(Op::Data, slot); };
  const auto lengthened = [&](ir::Id value, double by) {
    for (int step = 0; step < 15; ++step)
      value = g.add(Op::Sqrt, g.add(Op::Add, g.add(Op::Mul, value, value), g.literal(by)));
    return value;
  };
  std::vector<ir::Id> terms;
  for (std::uint32_t k = 0; k < 2 * kCount; ++k) {
    const ir::Id denominator = g.add(Op::Add, datum(kCount + k / 2), g.literal(2));
    terms.push_back(lengthened(g.add(Op::Mul, denominator, datum(2 * kCount + k)), 1));
  }
  for (std::uint32_t k = 0; k < kCount; ++k) {
    const ir::Id denominator = g.add(Op::Add, datum(2 * kCount - 1 - k), g.literal(2));
    terms.push_back(lengthened(g.add(Op::Div, g.add(Op::Sqrt, datum(k)), denominator), 2));
  }
  ir::Id sum = terms[0];
  for (std::size_t k = 1; k < terms.size(); ++k) sum = g.add(Op::Add, sum, terms[k]);
  return g.extract(std::vector{sum}, {.data = 4 * kCount});
}

// Twenty lanes are a loop, which reads the numbers of ten calls.
TEST_F(KernelForms, LoopsReadLanesOfCallsInTheirOrder) {
  KernelRequest request;
  request.name = "quotients";
  request.precision = Precision::f32;
  request.program = quotients();
  request.layout = codegen::general_layout(request.program.leaves);
  std::vector<double> data;
  for (std::uint32_t k = 0; k < request.program.leaves.data; ++k) data.push_back(k / 64.0);
  KernelRunner runner(device_);
  runner.set(BufferRole::data_columns, Precision::f32, data);
  runner.set(BufferRole::results, Precision::f32, std::vector<double>(1));
  const KernelSource source = generate(with_controls(request));
  EXPECT_NE(source.glsl.find("for (uint lane = 0u; lane < 20u; ++lane)"), std::string::npos);
  EXPECT_NE(source.glsl.find("lane0("), std::string::npos);
  runner.run(source, {.count = 1, .stride = 1}, 1);
  const double want = ir::evaluate<double>(request.program, {.data = data})[0];
  EXPECT_NEAR(runner.numbers(BufferRole::results, Precision::f32)[0] / want, 1, 1e-5);
}

TEST_F(KernelForms, NothingRunsOnceTheSolverIsDone) {
  const Precision precision = Precision::f32;
  const SpringSet set(100, precision);
  for (const double state : {0.0, 1.0, 3.0}) {
    KernelRequest request = springs_gradient_gather(precision);
    request.predicated = true;
    request.scalars = precision;
    KernelRunner runner(device_);
    set.set_entries(runner, precision);
    runner.set(BufferRole::scalars, precision, std::vector<double>{state});
    runner.set(BufferRole::results, precision, std::vector<double>(set.x.size(), 123));
    runner.run(generate(request), {.count = set.vertices, .stride = 200, .overwrite = 1}, 1);
    const std::vector<double> got = runner.numbers(BufferRole::results, precision);
    EXPECT_EQ(got == std::vector<double>(set.x.size(), 123), state != 0) << state;
  }
}

}  // namespace
}  // namespace topograd::test
