// Sums and differences of engine counters.
#include "engine_stats.hpp"

#include <algorithm>

namespace topograd::runtime {
namespace {

// A member added there must be added here.
static_assert(sizeof(EngineCounts) == 8 * sizeof(std::uint64_t));
static_assert(sizeof(MakingTimes) == 5 * sizeof(double));

template <class F>
void for_members(EngineCounts& a, const EngineCounts& b, const F& f) {
  f(a.kernels_on_cpu, b.kernels_on_cpu);
  f(a.kernels_on_device, b.kernels_on_device);
  f(a.submissions, b.submissions);
  f(a.readbacks, b.readbacks);
  f(a.bytes_up, b.bytes_up);
  f(a.bytes_down, b.bytes_down);
  f(a.shaders_compiled, b.shaders_compiled);
  f(a.shader_cache_hits, b.shader_cache_hits);
}

template <class F>
void for_members(MakingTimes& a, const MakingTimes& b, const F& f) {
  f(a.plan_seconds, b.plan_seconds);
  f(a.glsl_ms, b.glsl_ms);
  f(a.spirv_ms, b.spirv_ms);
  f(a.pipeline_ms, b.pipeline_ms);
  f(a.compile_wall_ms, b.compile_wall_ms);
}

constexpr auto kAdd = [](auto& a, auto b) { a += b; };
constexpr auto kSubtract = [](auto& a, auto b) { a -= b; };

}  // namespace

EngineCounts& EngineCounts::operator+=(const EngineCounts& more) {
  for_members(*this, more, kAdd);
  return *this;
}

EngineCounts& EngineCounts::operator-=(const EngineCounts& earlier) {
  for_members(*this, earlier, kSubtract);
  return *this;
}

MakingTimes& MakingTimes::operator+=(const MakingTimes& more) {
  for_members(*this, more, kAdd);
  return *this;
}

MakingTimes& MakingTimes::operator-=(const MakingTimes& earlier) {
  for_members(*this, earlier, kSubtract);
  return *this;
}

EngineStats& EngineStats::operator+=(const EngineStats& more) {
  EngineCounts::operator+=(more);
  MakingTimes::operator+=(more);
  device_bytes = std::max(device_bytes, more.device_bytes);
  return *this;
}

EngineStats operator-(EngineStats now, const EngineStats& earlier) {
  now.EngineCounts::operator-=(earlier);
  now.MakingTimes::operator-=(earlier);
  return now;
}

}  // namespace topograd::runtime
