// Internal: work ahead of a solve: a device is opened, and kernels are made.
#pragma once

#include <span>
#include <thread>

#include "../linear/step_solver.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../session/engines.hpp"

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

/// Makes all kernels that a solve will need, and waits for them; evaluates nothing.
///
///   steps  null for methods for scalar objectives
///   x      the engine's point
///
/// Throws what making them throws, and Error{Timeout} after ten minutes.
void make_kernels(Engines& engines, const ProblemModel& model, const SolverOptions& options,
                  const StepSolver* steps, std::span<const double> x);

}  // namespace topograd
