// What engines count: work, traffic, and the time that making layouts and kernels took.
#pragma once

#include <cstdint>

namespace topograd::runtime {

struct EngineCounts {
  std::uint64_t kernels_on_cpu = 0;     ///< batch evaluations by the interpreter
  std::uint64_t kernels_on_device = 0;  ///< dispatches of residual kernels
  std::uint64_t submissions = 0, readbacks = 0;
  std::uint64_t bytes_up = 0, bytes_down = 0;
  std::uint64_t shaders_compiled = 0, shader_cache_hits = 0;

  EngineCounts& operator+=(const EngineCounts& more);
  EngineCounts& operator-=(const EngineCounts& earlier);
};

struct MakingTimes {
  double plan_seconds = 0;  ///< layouts, inversion, transfers at the start
  double glsl_ms = 0, spirv_ms = 0, pipeline_ms = 0;  ///< sums over the threads that compiled
  double compile_wall_ms = 0;                         ///< during which some thread compiled

  MakingTimes& operator+=(const MakingTimes& more);
  MakingTimes& operator-=(const MakingTimes& earlier);
};

/// Of one engine, since it was made.
struct EngineStats : EngineCounts, MakingTimes {
  std::uint64_t device_bytes = 0;  ///< that are taken from the driver now, by all of its engines

  /// Of both; device_bytes is the larger one.
  EngineStats& operator+=(const EngineStats& more);
};

/// What came between two readings of one engine; device_bytes as it is now.
EngineStats operator-(EngineStats now, const EngineStats& earlier);

}  // namespace topograd::runtime
