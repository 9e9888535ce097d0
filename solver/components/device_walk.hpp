// Walks of components to their minima on a device: the whole loop of each in one invocation.
#pragma once

#include "../options.hpp"
#include "groups.hpp"
#include "lane_solver.hpp"

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

/// Most unknowns of a component whose numbers an invocation holds.
inline constexpr std::uint32_t kLargestWalk = 16;

/// Why the components of a group cannot walk on a device; empty: they can.
std::string obstacle_of_walk(const ComponentGroup& group);

/// The source of the kernel for a group: residuals, sums, LDLᵀ, trials and their acceptance, for
/// one component in each invocation. It ends by the gradient, by function_tolerance, by the number
/// of steps, or where no step lowers the cost.
///
///   precision  f32 or f64
std::string walk_source(const LaneProgram& program, Precision precision);

/// Dispatches of walks, the bytes that they moved, and how long their kernels took.
struct WalkCounts {
  std::uint64_t dispatches = 0, bytes_up = 0, bytes_down = 0;
  double kernel_seconds = 0;
};

/// A device on which components walk. It keeps the kernels of the sources it has seen, and the
/// memory of its largest dispatch.
class DeviceWalk {
 public:
  /// Throws Error{Unsupported} without a device that has the numbers of the options' precision
  /// (mixed walks in f32).
  explicit DeviceWalk(const SolverOptions& options);
  ~DeviceWalk();

  const std::string& device() const { return device_; }
  Precision precision() const { return precision_; }

  /// Walks of all components of the group from x, as many in one dispatch as fit the device's
  /// buffers; nothing is read back before the last step of the last of them. Throws what the device
  /// throws.
  ///
  ///   source  walk_source() of the program in precision()
  ///   pool    gathers the numbers
  ///   walks   the result; overwritten
  void run(const LaneProgram& program, const std::string& source, std::span<const double> x,
           runtime::cpu::Pool& pool, Walks& walks);

  /// Counts of the runs since the last call.
  WalkCounts take_counts() { return std::exchange(counts_, {}); }

 private:
  template <class T>
  struct Memory {
    std::vector<T> start, data, limits, end, report;
  };
  template <class T>
  void run_as(const LaneProgram& program, const std::string& source, std::span<const double> x,
              runtime::cpu::Pool& pool, Memory<T>& memory, Walks& walks);
  void dispatch(runtime::hybrid::DeviceProgram& program, int most_steps);

  Precision precision_;
  std::unique_ptr<runtime::hybrid::DeviceBackend> backend_;
  std::string device_;
  WalkCounts counts_;
  Memory<float> f32_;
  Memory<double> f64_;
};

}  // namespace topograd
