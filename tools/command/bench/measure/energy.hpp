// Joules that the processor and the graphics card say they have used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::command {

/// Readings since it was made. Counters of the whole machine: others at work on it count, too.
class EnergyMeter {
 public:
  EnergyMeter();

  struct Joules {
    std::optional<double> cpu;     ///< all packages, by RAPL (Linux powercap)
    std::optional<double> device;  ///< by NVML, the first card
  };
  Joules used() const;

 private:
  std::vector<std::optional<std::uint64_t>> packages_;  ///< µJ
  std::optional<std::uint64_t> card_;                   ///< mJ
};

}  // namespace topograd::command
