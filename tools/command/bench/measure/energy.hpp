// Energy counters of the processor and the graphics card, in joules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::command {

/// Energy since construction. The counters include all other load on the machine.
class EnergyMeter {
 public:
  EnergyMeter();

  struct Joules {
    std::optional<double> cpu;     ///< all packages, by RAPL (Linux powercap)
    std::optional<double> device;  ///< first card, by NVML
  };
  Joules used() const;

 private:
  std::vector<std::optional<std::uint64_t>> packages_;  ///< µJ
  std::optional<std::uint64_t> card_;                   ///< mJ
};

}  // namespace topograd::command
