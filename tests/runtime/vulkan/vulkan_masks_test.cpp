// Many fixed blocks: less work, the same results, and no wait for a compiler.
#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"
#include "slow_compiler.hpp"

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/evaluate.hpp"
#include "../../../runtime/device/kernels/kernel_cache.hpp"
#include "../../../runtime/plan/plan.hpp"
#include "../../../runtime/vulkan/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace topograd::test {
namespace {

using runtime::Engine;
using runtime::EngineOptions;
using runtime::PlanChoice;
using std::chrono::milliseconds;

/// sin(c0) p0 + c1 p1 - d of blocks of two and two scalars.
constexpr const char* kView = R"(program parameters=4 data=1 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = data 0
  %5 = sin %0
  %6 = mul %5, %2
  %7 = mul %1, %3
  %8 = add %6, %7
  %9 = sub %8, %4
  return %9
}
)";

/// Sums and products in sequence, until evaluating again costs more than a stored Jacobian.
std::string long_view() {
  const auto id = [](int k) { return "%" + std::to_string(k); };
  std::string text = "program parameters=4 data=1 uniforms=0 seeds=0 {\n";
  for (int k = 0; k < 4; ++k) text += "  " + id(k) + " = parameter " + std::to_string(k) + "\n";
  text += "  %4 = data 0\n  %5 = mul %0, %2\n  %6 = mul %1, %3\n  %7 = add %5, %6\n";
  int last = 7;
  for (int k = 0; k < 30; ++k, last += 2) {
    text += "  " + id(last + 1) + " = mul " + id(last) + ", " + id(k % 4) + "\n";
    text += "  " + id(last + 2) + " = sub " + id((k + 1) % 4) + ", " + id(last + 1) + "\n";
  }
  text += "  " + id(last + 1) + " = sub " + id(last) + ", %4\n";
  return text + "  return " + id(last + 1) + "\n}\n";
}

/// Forty cameras that see 250 points each, 2,500 points seen by four.
OwnedModel views_model(const std::string& text) {
  constexpr std::uint32_t kCameras = 40, kViews = 250, kPoints = kCameras * kViews / 4;
  OwnedModel m;
  m.model.arrays = {{.offset = 0, .width = 2, .blocks = kCameras},
                    {.offset = 2 * kCameras, .width = 2, .blocks = kPoints}};
  m.model.scalars = 2 * (kCameras + kPoints);
  for (std::uint32_t k = 0; k < m.model.scalars; ++k) m.x.push_back(0.5 + 0.001 * (k % 700));
  m.add_term("view", text.c_str());
  for (std::uint32_t k = 0; k < kCameras * kViews; ++k) {
    const std::uint32_t camera = 2 * (k / kViews), point = 2 * (kCameras + k * 7 % kPoints);
    m.add_row(0, {camera, camera + 1, point, point + 1}, {0.25 * (k % 13)});
  }
  return m;
}

void hold(OwnedModel& m, std::uint64_t first, std::uint64_t last) {
  m.model.constant.resize(m.model.scalars, 0);
  std::fill(m.model.constant.begin() + static_cast<std::ptrdiff_t>(first),
            m.model.constant.begin() + static_cast<std::ptrdiff_t>(last), 1);
}

/// Fixes every second block of three.
void hold_every_second(OwnedModel& m, std::uint32_t from) {
  m.model.constant.assign(m.model.scalars, 0);
  for (std::size_t k = 0; k < m.model.scalars; ++k) m.model.constant[k] = k / 3 % 2 == from ? 1 : 0;
}

class VulkanMasks : public VulkanTest {
 protected:
  static std::unique_ptr<Engine> open(const OwnedModel& m, const EngineOptions& options = {}) {
    return runtime::vulkan::make_vulkan_engine(m.model, options);
  }
  /// The free scalars of v.
  static std::vector<double> free_part(const OwnedModel& m, std::vector<double> v) {
    for (std::size_t k = 0; k < v.size(); ++k) v[k] = m.model.constant[k] ? 0 : v[k];
    return v;
  }
  static std::vector<double> gradient(const OwnedModel& m, Engine& engine) {
    engine.set_point(m.x);
    std::vector<double> g(m.x.size());
    engine.gradient(g);
    return free_part(m, g);
  }
  static std::vector<double> product(const OwnedModel& m, Engine& engine) {
    const std::vector<double> p = free_part(m, m.x);
    std::vector<double> q(m.x.size());
    engine.jtjp(p, q);
    return free_part(m, q);
  }
  static PlanChoice of(Engine& engine, const std::string& pass, const std::string& name) {
    for (const PlanChoice& choice : engine.abilities().plans->plan().batches) {
      if (choice.pass == pass && choice.name == name) return choice;
    }
    ADD_FAILURE() << "no " << pass << " of " << name;
    return {};
  }
  /// Evaluates until fewer entries are summed than by general kernels.
  static void wait_for_mask(const OwnedModel& m, Engine& engine, const std::string& name,
                            std::uint64_t whole) {
    for (int k = 0; k < 5000 && of(engine, "gradient", name).entries == whole; ++k) {
      std::this_thread::sleep_for(milliseconds(2));
      gradient(m, engine);
    }
    EXPECT_LT(of(engine, "gradient", name).entries, whole);
  }
};

TEST(FixedSlots, WholePositionsAndBlocks) {
  OwnedModel m = views_model(kView);
  const auto find = [&] {
    return find_fixed_slots(*m.model.terms[0].batch,
                            runtime::find_groups(*m.model.terms[0].batch, m.model.arrays),
                            m.model.arrays, m.model.constant);
  };
  hold(m, 0, 80);  // all cameras
  runtime::FixedSlots fixed = find();
  EXPECT_EQ(fixed.slots, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(fixed.entries, 20000u);
  EXPECT_EQ(fixed.left_out, 10000u);
  m.model.constant[5] = 0;  // one scalar of one camera
  fixed = find();
  EXPECT_EQ(fixed.slots, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(fixed.left_out, 9750u);
}

TEST_F(VulkanMasks, HalfOfTheBlocksTakeHalfOfTheWorkAndNobodyWaits) {
  TG_NEEDS(float64);
  OwnedModel m = springs_model(5000, 20000);
  hold_every_second(m, 0);
  const auto engine = open(m);
  const std::vector<double> general = gradient(m, *engine), curved = product(m, *engine);
  const PlanChoice before = of(*engine, "gradient", "spring");
  EXPECT_EQ(before.entries, 40000u);
  {
    const SlowCompiler slow(milliseconds(1000));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(gradient(m, *engine), general);
    EXPECT_EQ(of(*engine, "gradient", "spring").entries, before.entries);
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(1000));
    wait_for_mask(m, *engine, "spring", before.entries);
  }
  // Every end is fixed with probability one half.
  const PlanChoice after = of(*engine, "gradient", "spring");
  EXPECT_NEAR(static_cast<double>(after.entries), 20000, 600);
  EXPECT_NEAR(static_cast<double>(after.operations) / static_cast<double>(before.operations), 0.5,
              0.03);
  EXPECT_NEAR(static_cast<double>(after.bytes) / static_cast<double>(before.bytes), 0.5, 0.03);
  EXPECT_EQ(gradient(m, *engine), general);
  EXPECT_EQ(product(m, *engine), curved);
  // Other flags: the general kernels exist and are used at once.
  hold_every_second(m, 1);
  const std::uint64_t compiled = engine->stats().shaders_compiled;
  const SlowCompiler slow(milliseconds(2000));
  const auto start = std::chrono::steady_clock::now();
  engine->refresh(m.model);
  const std::vector<double> other = gradient(m, *engine), want = reference_gradient(m);
  EXPECT_LE(relative_difference(other, free_part(m, want)), 1e-13);
  product(m, *engine);
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2000));
  EXPECT_EQ(engine->stats().shaders_compiled, compiled);
  wait_for_mask(m, *engine, "spring", before.entries);  // with existing kernels
  EXPECT_EQ(gradient(m, *engine), other);
}

// Too few for a mask: the existing kernels are used at once, and no other is made.
TEST_F(VulkanMasks, TheFirstConstantBlockWaitsForNoCompiler) {
  TG_NEEDS(float64);
  OwnedModel m = springs_model(300, 900);
  const auto step = [&](Engine& engine) {
    engine.set_point(m.x);
    runtime::damped_steps(engine).linearize();
    runtime::damped_steps(engine).try_step({.lambda = 0.1, .linear_tolerance = 1e-12});
    std::vector<double> delta(m.x.size());
    engine.abilities().last_step->last_step(delta);
    return delta;
  };
  const auto engine = open(m);
  const std::vector<double> free = step(*engine);
  const runtime::EngineStats before = engine->stats();
  hold(m, 6, 12);
  std::vector<double> held;
  {
    const SlowCompiler slow(milliseconds(4000));
    const auto start = std::chrono::steady_clock::now();
    engine->refresh(m.model);
    held = step(*engine);
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(4000));
  }
  EXPECT_EQ(engine->stats().shaders_compiled, before.shaders_compiled);
  EXPECT_EQ(engine->stats().pipeline_ms, before.pipeline_ms);
  for (std::size_t k = 0; k < held.size(); ++k) EXPECT_EQ(held[k] == 0, k >= 6 && k < 12) << k;
  EXPECT_EQ(held, step(*open(m)));
  m.model.constant.clear();
  engine->refresh(m.model);
  EXPECT_EQ(step(*engine), free);
}

TEST_F(VulkanMasks, WhatIsConstantEverywhereGetsNoDerivatives) {
  TG_NEEDS(float64);
  for (const std::string& text : {std::string(kView), long_view()}) {
    for (const bool cameras : {true, false}) {
      SCOPED_TRACE(std::to_string(text.size()) + (cameras ? " cameras" : " points"));
      OwnedModel m = views_model(text);
      hold(m, cameras ? 0 : 80, cameras ? 80 : m.model.scalars);
      for (const auto strategy :
           {codegen::Accumulation::gather_recompute, codegen::Accumulation::gather_store,
            codegen::Accumulation::atomic_cas}) {
        SCOPED_TRACE(name(strategy));
        const auto engine = open(m, {.accumulation = strategy, .deterministic = true});
        OwnedModel unfixed = views_model(text);
        const auto general = open(unfixed, {.accumulation = strategy, .deterministic = true});
        const std::vector<double> want = gradient(m, *general), curved = product(m, *general);
        EXPECT_LE(relative_difference(gradient(m, *engine), want), 1e-13);
        EXPECT_LE(relative_difference(product(m, *engine), curved), 1e-13);
        if (strategy == codegen::Accumulation::atomic_cas) continue;
        for (const char* pass : {"gradient", "jtjp"}) {
          const PlanChoice masked = of(*engine, pass, "view"), whole = of(*general, pass, "view");
          EXPECT_EQ(whole.entries, 20000u);
          EXPECT_EQ(masked.entries, 10000u);
          EXPECT_LT(masked.operations, 0.9 * static_cast<double>(whole.operations)) << pass;
          EXPECT_LT(masked.bytes, whole.bytes);
        }
      }
    }
  }
}

// Steps: fused products (springs), recomputed ones, and stored Jacobians (long programs); with the
// mask from the start, or from a later linearisation.
TEST_F(VulkanMasks, StepsAreThoseOfTheGeneralKernels) {
  TG_NEEDS(float64);
  const runtime::StepRequest request{.lambda = 0.1, .linear_tolerance = 1e-12};
  std::vector<OwnedModel> models;
  models.push_back(springs_model(5000, 20000));
  hold_every_second(models.back(), 0);
  for (const std::string& text : {std::string(kView), long_view()}) {
    for (const bool cameras : {true, false}) {
      models.push_back(views_model(text));
      hold(models.back(), cameras ? 0 : 80, cameras ? 80 : models.back().model.scalars);
    }
  }
  for (const OwnedModel& m : models) {
    SCOPED_TRACE(m.model.terms[0].name + " " + std::to_string(&m - models.data()));
    const auto step = [&](Engine& engine) {
      runtime::damped_steps(engine).linearize();
      const runtime::StepReport report = runtime::damped_steps(engine).try_step(request);
      EXPECT_GT(report.linear_iterations, 0);
      EXPECT_GT(report.model_decrease, 0);
      std::vector<double> delta(m.x.size());
      engine.abilities().last_step->last_step(delta);
      for (std::size_t k = 0; k < delta.size(); ++k) {
        if (m.model.constant[k]) {
          EXPECT_EQ(delta[k], 0) << k;
        }
      }
      return delta;
    };
    const auto engine = open(m), fixed = open(m, {.deterministic = true});
    engine->set_point(m.x);
    fixed->set_point(m.x);
    const std::vector<double> want = step(*engine);
    EXPECT_LE(relative_difference(step(*fixed), want), 1e-7);
    // The mask takes effect at a linearisation; the second one requests it.
    const auto entries = [&] { return of(*engine, "gradient", m.model.terms[0].name).entries; };
    const std::uint64_t whole = entries();
    for (int k = 0; k < 1000 && entries() == whole; ++k) {
      EXPECT_LE(relative_difference(step(*engine), want), 1e-7) << k;
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_LT(entries(), whole);
    EXPECT_EQ(step(*engine), step(*fixed));
    runtime::damped_steps(*engine).accept();
    std::vector<double> x(m.x.size());
    engine->point(x);
    EXPECT_NE(x, m.x);
  }
}

}  // namespace
}  // namespace topograd::test
