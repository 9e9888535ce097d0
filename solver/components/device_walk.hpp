// Walks of components to their minima on a device: the whole loop of each in one kernel.
#pragma once

#include "../options.hpp"
#include "../plan/decide.hpp"
#include "groups.hpp"
#include "lane_solver.hpp"
#include "walk_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {

namespace runtime::cpu {
class Pool;
}
namespace runtime::hybrid {
class DeviceBackend;
struct DeviceProgram;
}  // namespace runtime::hybrid

/// Dispatches of walks, the bytes that they moved, and how long their kernels took.
struct WalkCounts {
  std::uint64_t dispatches = 0, bytes_up = 0, bytes_down = 0;
  double kernel_seconds = 0;
};

/// The facts about the chosen device on which walks depend.
struct WalkDevice {
  std::string name;
  Precision precision = Precision::f32;  ///< f64 if that is asked for and the device has it
  std::uint32_t shared_bytes = 0;        ///< shared memory of a workgroup

  /// Why the components of a group cannot walk on it; empty: they can.
  std::string obstacle_of(const ComponentGroup& group) const {
    return obstacle_of_walk(group, precision, shared_bytes);
  }
};

/// A usable device, as far as walks depend on it.
WalkDevice walk_device(const DeviceFacts& facts, const SolverOptions& options);

/// A device on which components walk. It keeps the kernels of the sources it has seen, and the
/// memory of its largest dispatch.
class DeviceWalk {
 public:
  /// Throws Error{Unsupported} if the device computes wrongly.
  ///
  ///   device  that the options choose
  DeviceWalk(const SolverOptions& options, WalkDevice device);
  ~DeviceWalk();

  const WalkDevice& device() const { return device_; }
  WalkKernel kernel_of(const LaneProgram& program) const {
    return walk_kernel(program, device_.precision, device_.shared_bytes);
  }

  /// Walks of all components of the group from x, as many in one dispatch as fit the device's
  /// buffers; nothing is read back before the last step of the last of them. Throws what the device
  /// throws.
  ///
  ///   kernel  kernel_of() the program
  ///   pool    gathers the numbers
  ///   walks   the result; overwritten
  void run(const LaneProgram& program, const WalkKernel& kernel, std::span<const double> x,
           runtime::cpu::Pool& pool, Walks& walks);

  /// Counts of the runs since the last call.
  WalkCounts take_counts() { return std::exchange(counts_, {}); }

 private:
  template <class T>
  struct Memory {
    std::vector<T> start, data, limits, end, report;
  };
  template <class T>
  void run_as(const LaneProgram& program, const WalkKernel& kernel, std::span<const double> x,
              runtime::cpu::Pool& pool, Memory<T>& memory, Walks& walks);
  void dispatch(runtime::hybrid::DeviceProgram& program, int most_steps);

  WalkDevice device_;
  std::unique_ptr<runtime::hybrid::DeviceBackend> backend_;
  WalkCounts counts_;
  Memory<float> f32_;
  Memory<double> f64_;
};

}  // namespace topograd
