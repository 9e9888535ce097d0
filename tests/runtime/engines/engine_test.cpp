// Common parts of engines: sums of counters and memory, and column scaling of steps.
#include "../../../runtime/cpu/engine.hpp"
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "step_checks.hpp"

namespace topograd::test {
namespace {

using runtime::EngineStats;
using runtime::MemoryUse;

EngineStats counted(std::uint64_t unit) {
  EngineStats s;
  s.kernels_on_cpu = unit, s.kernels_on_device = 2 * unit, s.submissions = 3 * unit;
  s.readbacks = 4 * unit, s.bytes_up = 5 * unit, s.bytes_down = 6 * unit;
  s.shaders_compiled = 7 * unit, s.shader_cache_hits = 8 * unit;
  const auto time = static_cast<double>(unit);
  s.plan_seconds = time, s.glsl_ms = 2 * time, s.spirv_ms = 3 * time, s.pipeline_ms = 4 * time;
  s.compile_wall_ms = 5 * time;
  s.device_bytes = 9 * unit;
  return s;
}

TEST(EngineStats, AddUpAndTakeTheLargerOfWhatTheDeviceHolds) {
  EngineStats sum = counted(100);
  sum += counted(1);
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> counts = {
      {sum.kernels_on_cpu, 101},   {sum.kernels_on_device, 202}, {sum.submissions, 303},
      {sum.readbacks, 404},        {sum.bytes_up, 505},          {sum.bytes_down, 606},
      {sum.shaders_compiled, 707}, {sum.shader_cache_hits, 808}, {sum.device_bytes, 900}};
  for (std::size_t k = 0; k < counts.size(); ++k)
    EXPECT_EQ(counts[k].first, counts[k].second) << "count " << k;
  const std::vector<std::pair<double, double>> times = {{sum.plan_seconds, 101},
                                                        {sum.glsl_ms, 202},
                                                        {sum.spirv_ms, 303},
                                                        {sum.pipeline_ms, 404},
                                                        {sum.compile_wall_ms, 505}};
  for (std::size_t k = 0; k < times.size(); ++k)
    EXPECT_EQ(times[k].first, times[k].second) << "time " << k;
}

TEST(MemoryUse, OfTwoEnginesByUse) {
  const std::vector<MemoryUse> both =
      runtime::together({{"columns", 10, 300}, {"x", 1, 0}}, {{"columns", 5, 200}, {"y", 2, 7}});
  ASSERT_EQ(both.size(), 3u);
  EXPECT_EQ(both[0].use, "columns");
  EXPECT_EQ(both[0].host, 15u);
  EXPECT_EQ(both[0].device, 300u);
  EXPECT_EQ(both[1].host, 1u);
  EXPECT_EQ(both[2].use, "y");
  EXPECT_EQ(both[2].device, 7u);
}

TEST(CpuEngine, ColumnScalingIsThatOfTheFirstStep) {
  check_scaling_stays(
      [](const runtime::Model& model) { return runtime::cpu::make_cpu_engine(model, {}); });
}

}  // namespace
}  // namespace topograd::test
