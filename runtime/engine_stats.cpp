// Sums of what engines count.
#include <topograd/runtime/engine_stats.hpp>

#include <algorithm>

namespace topograd::runtime {

// A member that is added there has to be added here.
static_assert(sizeof(EngineCounts) == 8 * sizeof(std::uint64_t));
static_assert(sizeof(MakingTimes) == 5 * sizeof(double));

EngineCounts& EngineCounts::operator+=(const EngineCounts& more) {
  kernels_on_cpu += more.kernels_on_cpu;
  kernels_on_device += more.kernels_on_device;
  submissions += more.submissions;
  readbacks += more.readbacks;
  bytes_up += more.bytes_up;
  bytes_down += more.bytes_down;
  shaders_compiled += more.shaders_compiled;
  shader_cache_hits += more.shader_cache_hits;
  return *this;
}

MakingTimes& MakingTimes::operator+=(const MakingTimes& more) {
  plan_seconds += more.plan_seconds;
  glsl_ms += more.glsl_ms;
  spirv_ms += more.spirv_ms;
  pipeline_ms += more.pipeline_ms;
  compile_wall_ms += more.compile_wall_ms;
  return *this;
}

EngineStats& EngineStats::operator+=(const EngineStats& more) {
  EngineCounts::operator+=(more);
  MakingTimes::operator+=(more);
  device_bytes = std::max(device_bytes, more.device_bytes);
  return *this;
}

}  // namespace topograd::runtime
