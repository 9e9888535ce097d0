// Opening of a device beside other work.
#pragma once

#include "../options.hpp"

#include <thread>

namespace topograd {

/// Opens the device that the options choose on a thread of its own, so that a solve finds it open:
/// a driver takes as long to start as a file to read. Does nothing unless the options ask for the
/// backend `vulkan`. Failures are left to the solve, which meets them again.
class DeviceAhead {
 public:
  explicit DeviceAhead(const SolverOptions& options);

 private:
  std::jthread thread_;  // ends before this does
};

}  // namespace topograd
