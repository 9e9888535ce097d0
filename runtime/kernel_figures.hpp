// Compilation times of a kernel, and the driver's figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::runtime {

/// One compiled kernel: its compilation times, and the driver's figures under the driver's names
/// (registers, spills, memory, occupancy).
struct KernelFigures {
  std::string name;
  std::uint32_t workgroup_size = 0;
  double glsl_ms = 0;      ///< generation of the source by this engine
  double spirv_ms = 0;     ///< compiler, reflection and disk; 0 if the module was in memory
  double pipeline_ms = 0;  ///< driver; 0 if the pipeline was in memory
  std::string origin;      ///< of the module: "compiled", "disk" or "memory"
  struct Figure {
    std::string name;
    double value = 0;
  };
  std::vector<Figure> figures;

  double making_ms() const { return glsl_ms + spirv_ms + pipeline_ms; }
};

}  // namespace topograd::runtime
