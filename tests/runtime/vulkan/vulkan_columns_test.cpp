// Columns that need not be stored, and their later storage.
#include "../../../runtime/device/kernels/kernel_cache.hpp"
#include "../../../runtime/vulkan/engine.hpp"
#include "../../../runtime/vulkan/recording/context.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"

namespace topograd::test {
namespace {

using runtime::Engine;
using runtime::Precision;
using std::chrono::milliseconds;

/// Springs of one length along a line, with every vertex pulled to one point: only the starts of
/// the springs' entries are stored.
OwnedModel line_model(std::uint32_t vertices) {
  OwnedModel m = springs_model(vertices, 0);
  for (std::uint32_t k = 0; k < vertices; ++k) {
    const std::uint32_t a = 3 * k, b = a + 3;
    if (k + 1 < vertices) m.add_row(0, {a, a + 1, a + 2, b, b + 1, b + 2}, {0.75});
    m.add_row(1, {a, a + 1, a + 2}, {0.25, -0.5, 1});
  }
  return m;
}

/// Each new kernel takes longer than any test waits.
class NoCompiler {
 public:
  static constexpr milliseconds kDelay{4000};
  NoCompiler() { runtime::vulkan::set_compile_delay(kDelay); }
  ~NoCompiler() {
    runtime::vulkan::set_compile_delay(milliseconds(0));
    EXPECT_LT(std::chrono::steady_clock::now() - start_, kDelay) << "somebody compiled";
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class VulkanColumns : public VulkanTest {
 protected:
  VulkanColumns() { runtime::vulkan::set_flexible_columns(true); }
  ~VulkanColumns() override { runtime::vulkan::set_flexible_columns(std::nullopt); }

  static std::unique_ptr<Engine> open(const OwnedModel& m,
                                      const runtime::EngineOptions& options = {}) {
    return runtime::vulkan::make_vulkan_engine(m.model, options);
  }

  /// Checks every form of kernel against sums by the scalar evaluator.
  static void check(Engine& engine, const OwnedModel& m) {
    const double bound = 1e-12;
    engine.set_point(m.x);
    const std::vector<double> want = reference_gradient(m);
    std::vector<double> got(m.x.size()), p(m.x.size()), rows(m.model.rows);
    engine.gradient(got);
    EXPECT_LE(relative_difference(got, want), bound);
    EXPECT_NEAR(engine.cost(), reference_cost(m), bound * reference_cost(m));
    engine.residuals(rows);
    double cost = 0;
    for (const double r : rows) cost += r * r / 2;
    EXPECT_NEAR(cost, reference_cost(m), bound * reference_cost(m));
    engine.vjp(rows, got);
    EXPECT_LE(relative_difference(got, want), bound);
    for (std::size_t k = 0; k < p.size(); ++k) p[k] = 0.1 * static_cast<double>(k % 7) - 0.3;
    engine.jvp(p, rows);
    engine.jtjp(p, got);
    std::vector<double> product(m.x.size());
    engine.vjp(rows, product);
    EXPECT_LE(relative_difference(got, product), bound);
    const runtime::PointReport at = runtime::damped_steps(engine).linearize();
    EXPECT_NEAR(at.cost, reference_cost(m), bound * reference_cost(m));
    const runtime::StepReport step = runtime::damped_steps(engine).try_step({.lambda = 1e-3});
    OwnedModel moved = {{}, {}, m.model, m.x};
    runtime::damped_steps(engine).trial_point(moved.x);
    EXPECT_NEAR(step.trial_cost, reference_cost(moved), 1e-9 * reference_cost(m));
    EXPECT_LT(step.trial_cost, at.cost);
  }

  static std::uint64_t column_bytes(Engine& engine) {
    std::uint64_t bytes = 0;
    for (const runtime::MemoryUse& use : engine.abilities().measurements->memory()) {
      for (const char* name :
           {"spring_index", "spring_data", "anchor_index", "anchor_data", "spring_gather_index",
            "spring_gather_data", "anchor_gather_index", "anchor_gather_data"}) {
        if (use.use == name) bytes += use.device;
      }
    }
    return bytes;
  }
};

TEST_F(VulkanColumns, WhatIsSharedOrGrowsIsNotStored) {
  TG_NEEDS(float64);
  const OwnedModel m = line_model(5000);
  const auto engine = open(m);
  check(*engine, m);
  EXPECT_LE(column_bytes(*engine), 8u * 64) << "a few numbers, and not some for each instance";
}

TEST_F(VulkanColumns, ANumberThatChangesIsRightAtOnce) {
  TG_NEEDS(float64);
  for (const runtime::Accumulation strategy :
       {runtime::Accumulation::gather_recompute, runtime::Accumulation::gather_store,
        runtime::Accumulation::atomic_cas}) {
    SCOPED_TRACE(codegen::name(strategy));
    OwnedModel m = line_model(700);
    const auto engine = open(m, {.accumulation = strategy});
    check(*engine, m);
    const std::uint64_t compiled = engine->stats().shaders_compiled;
    {
      const NoCompiler nobody_waits;
      m.batches[0]->set_data(399, 0, 2.0);
      engine->refresh(m.model);
      check(*engine, m);
      for (std::size_t i = 0; i < m.batches[1]->size(); ++i) m.batches[1]->set_data(i, 2, 0.5);
      engine->refresh(m.model);  // still shared
      check(*engine, m);
    }
    EXPECT_EQ(engine->stats().shaders_compiled, compiled);
    EXPECT_GE(column_bytes(*engine), 699u * 8);
  }
}

TEST_F(VulkanColumns, InstancesThatBreakAPatternAskForNoKernel) {
  TG_NEEDS(float64);
  OwnedModel m = line_model(600);
  const auto engine = open(m);
  check(*engine, m);
  const NoCompiler nobody_waits;
  m.add_row(0, {9, 10, 11, 300, 301, 302}, {0.5});
  m.add_row(1, {30, 31, 32}, {1, 2, 3});
  engine->refresh(m.model);
  check(*engine, m);
  m.batches[0]->set_index(100, 0, 900);
  m.batches[0]->set_index(100, 1, 901);
  m.batches[0]->set_index(100, 2, 902);
  const auto other = open(m);  // as an Evaluator does after residuals were added
  check(*other, m);
}

TEST_F(VulkanColumns, InChunksEachRowReadsItsOwn) {
  TG_NEEDS(float64);
  const OwnedModel m = line_model(2000);  // 1,280 anchors fit
  const auto engine = open(m, {.max_storage_buffer_range = 96u << 10});
  check(*engine, m);
}

}  // namespace
}  // namespace topograd::test
