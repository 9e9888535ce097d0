// Numbers shared by all instances as code: the same bits, compiled in the background, dropped at
// once.
#include "../../../runtime/device/kernels/kernel_cache.hpp"
#include "../../../runtime/vulkan/engine.hpp"
#include "../../../runtime/vulkan/recording/context.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"

namespace topograd::test {
namespace {

using runtime::Engine;
using std::chrono::milliseconds;

/// Springs of one length, and as many of two lengths.
OwnedModel springs(double length, double other) {
  OwnedModel m = springs_model(400, 0);
  for (std::uint32_t k = 0; k + 1 < 400; ++k) {
    const std::uint32_t a = 3 * k, b = a + 3;
    m.add_row(0, {a, a + 1, a + 2, b, b + 1, b + 2}, {k % 2 == 0 ? length : other});
  }
  return m;
}

/// All results of an engine, in one vector.
std::vector<double> results(const OwnedModel& m, Engine& engine) {
  engine.set_point(m.x);
  std::vector<double> all = {engine.cost()}, rows(m.model.rows), numbers(m.x.size());
  const auto add = [&](const std::vector<double>& v) { all.insert(all.end(), v.begin(), v.end()); };
  engine.residuals(rows);
  add(rows);
  engine.gradient(numbers);
  add(numbers);
  engine.jtjp(m.x, numbers);
  add(numbers);
  runtime::damped_steps(engine).linearize();
  all.push_back(runtime::damped_steps(engine).try_step({.lambda = 0.5}).trial_cost);
  engine.abilities().last_step->last_step(numbers);
  add(numbers);
  return all;
}

class VulkanNumbers : public VulkanTest {
 protected:
  VulkanNumbers() { runtime::vulkan::set_flexible_columns(false); }
  ~VulkanNumbers() override {
    runtime::vulkan::set_flexible_columns(std::nullopt);
    runtime::vulkan::set_numbers_in_code(std::nullopt);
  }
  static std::unique_ptr<Engine> open(const OwnedModel& m, bool in_code,
                                      runtime::EngineOptions options = {}) {
    runtime::vulkan::set_numbers_in_code(in_code);
    return runtime::vulkan::make_vulkan_engine(m.model, options);
  }
  /// Bytes of the springs' columns in the present kernels.
  static std::uint64_t bytes(Engine& engine) {
    for (const runtime::PlanChoice& choice : engine.abilities().plans->plan().batches) {
      if (choice.pass == "gradient" && choice.name == "spring") return choice.bytes;
    }
    return 0;
  }
};

TEST_F(VulkanNumbers, BecomeCodeAndKeepEveryBit) {
  TG_NEEDS(float64);
  for (const auto strategy :
       {runtime::Accumulation::gather_recompute, runtime::Accumulation::gather_store,
        runtime::Accumulation::atomic_cas}) {
    SCOPED_TRACE(codegen::name(strategy));
    const bool sums_vary = strategy == runtime::Accumulation::atomic_cas;
    OwnedModel m = springs(0.7, 0.7);
    const auto general = open(m, false, {.accumulation = strategy});
    const std::vector<double> want = results(m, *general);
    const auto engine = open(m, true, {.accumulation = strategy});
    const auto expect_same = [&](const std::vector<double>& expected) {
      const std::vector<double> got = results(m, *engine);
      if (sums_vary) {
        EXPECT_LE(relative_difference(got, expected), 1e-9);
      } else {
        EXPECT_EQ(got, expected);
      }
    };
    expect_same(want);
    const std::uint64_t before = bytes(*engine);
    for (int k = 0; k < (sums_vary ? 60 : 2000) && bytes(*engine) == before; ++k) {
      std::this_thread::sleep_for(milliseconds(5));
      engine->set_point(m.x);
      runtime::damped_steps(*engine).linearize();
    }
    if (!sums_vary) {
      EXPECT_LT(bytes(*engine), before) << "no number became code";
    }
    expect_same(want);
    // One of them changes: the general kernels exist.
    m.batches[0]->set_data(17, 0, 0.9);
    runtime::vulkan::set_compile_delay(milliseconds(4000));
    const auto start = std::chrono::steady_clock::now();
    engine->refresh(m.model);
    const std::vector<double> changed = results(m, *engine);
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(4000)) << "somebody compiled";
    runtime::vulkan::set_compile_delay(milliseconds(0));
    EXPECT_EQ(bytes(*engine), before);
    const auto fresh = open(m, false, {.accumulation = strategy});
    expect_same(results(m, *fresh));
    EXPECT_NE(changed, want);
  }
}

TEST_F(VulkanNumbers, ThatVaryOrThatCompilersTakeForMoreStayData) {
  TG_NEEDS(float64);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [length, other] :
       {std::pair(0.7, 0.8), {0.0, 0.0}, {-0.0, -0.0}, {infinity, infinity}, {5e-324, 5e-324}}) {
    const OwnedModel m = springs(length, other);
    const auto engine = open(m, true);
    std::vector<double> g(m.x.size());
    engine->set_point(m.x);
    engine->gradient(g);
    const std::uint64_t before = bytes(*engine);
    for (int k = 0; k < 20; ++k) {
      std::this_thread::sleep_for(milliseconds(10));
      engine->set_point(m.x);
      engine->gradient(g);
    }
    EXPECT_EQ(bytes(*engine), before) << length;
  }
}

}  // namespace
}  // namespace topograd::test
