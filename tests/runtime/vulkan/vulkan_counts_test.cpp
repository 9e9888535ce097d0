// Engines that share a device count only their own work.
#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"

#include "../../../runtime/device/kernels/kernel_cache.hpp"
#include "../../../runtime/vulkan/engine.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using runtime::Engine;
using runtime::EngineStats;
using runtime::vulkan::Counters;

class VulkanCounts : public VulkanTest {
 protected:
  static std::unique_ptr<Engine> open(const OwnedModel& m) {
    std::unique_ptr<Engine> engine = runtime::vulkan::make_vulkan_engine(m.model, {});
    engine->set_point(m.x);
    return engine;
  }
};

void expect_same(const EngineStats& a, const EngineStats& b) {
  EXPECT_EQ(a.kernels_on_device, b.kernels_on_device);
  EXPECT_EQ(a.submissions, b.submissions);
  EXPECT_EQ(a.readbacks, b.readbacks);
  EXPECT_EQ(a.bytes_up, b.bytes_up);
  EXPECT_EQ(a.bytes_down, b.bytes_down);
  EXPECT_EQ(a.shaders_compiled, b.shaders_compiled);
  EXPECT_EQ(a.shader_cache_hits, b.shader_cache_hits);
  EXPECT_EQ(a.glsl_ms, b.glsl_ms);
  EXPECT_EQ(a.spirv_ms, b.spirv_ms);
  EXPECT_EQ(a.pipeline_ms, b.pipeline_ms);
  EXPECT_EQ(a.compile_wall_ms, b.compile_wall_ms);
}

TEST_F(VulkanCounts, TwoEnginesOnOneDeviceCountTheirOwn) {
  TG_NEEDS(float64);
  const auto device = runtime::vulkan::open();
  const Counters start = device->counters();
  const OwnedModel small = springs_model(30, 90), large = springs_model(3000, 9000);
  const auto one = open(small), other = open(large);
  std::vector<double> g(large.x.size()), few(small.x.size());
  one->gradient(few);
  const EngineStats idle = one->stats();
  EXPECT_GE(idle.bytes_up, 8 * small.x.size());
  EXPECT_EQ(idle.readbacks, 1u);
  EXPECT_EQ(idle.bytes_down, 8 * small.x.size());

  runtime::damped_steps(*other).linearize();
  runtime::damped_steps(*other).try_step({.lambda = 1});
  for (int k = 0; k < 3; ++k) other->gradient(g);
  expect_same(one->stats(), idle);

  EngineStats sum = one->stats();
  sum += other->stats();
  const Counters both = device->counters() - start;
  EXPECT_EQ(sum.submissions, both.submissions);
  EXPECT_EQ(sum.readbacks, both.readbacks);
  EXPECT_EQ(sum.bytes_up, both.bytes_up);
  EXPECT_EQ(sum.bytes_down, both.bytes_down);
}

TEST_F(VulkanCounts, KernelsCountForWhoeverMadeThem) {
  TG_NEEDS(float64);
  const OwnedModel m = chain_model(64);
  const auto first = open(m);
  std::vector<double> g(m.x.size());
  first->gradient(g);
  const EngineStats made = first->stats();
  const auto second = open(m);
  constexpr std::chrono::milliseconds kDelay{50};
  runtime::vulkan::set_compile_delay(kDelay);
  second->gradient(g);
  std::vector<double> rows(m.model.rows);
  second->residuals(rows);  // a new kernel
  runtime::vulkan::set_compile_delay(std::chrono::milliseconds(0));
  expect_same(first->stats(), made);
  EXPECT_GT(second->stats().shader_cache_hits, 0u);
  EXPECT_GE(second->stats().spirv_ms, static_cast<double>(kDelay.count()));
  EXPECT_GE(second->stats().compile_wall_ms, static_cast<double>(kDelay.count()));
}

}  // namespace
}  // namespace topograd::test
