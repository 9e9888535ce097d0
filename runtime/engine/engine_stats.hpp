// Engine counters: work, traffic, and the time to make layouts and kernels.
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
  double plan_seconds = 0;                            ///< layouts, inversion, initial transfers
  double glsl_ms = 0, spirv_ms = 0, pipeline_ms = 0;  ///< sums over the threads that compiled
  double compile_wall_ms = 0;                         ///< wall time in which some thread compiled

  MakingTimes& operator+=(const MakingTimes& more);
  MakingTimes& operator-=(const MakingTimes& earlier);
};

/// Counters of one engine since its construction.
struct EngineStats : EngineCounts, MakingTimes {
  std::uint64_t device_bytes = 0;  ///< allocated from the driver now, by all engines of the device

  /// Adds both; device_bytes is the larger one.
  EngineStats& operator+=(const EngineStats& more);
};

/// The difference of two readings of one engine; device_bytes is the present value.
EngineStats operator-(EngineStats now, const EngineStats& earlier);

}  // namespace topograd::runtime
