// Minimises components on a device: the whole loop of each in one kernel.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"
#include "groups.hpp"
#include "lane_solver.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd {

/// Most unknowns of a component on a device, and of one whose numbers a single invocation holds.
inline constexpr std::uint32_t kLargestOnDevice = 64;
inline constexpr std::uint32_t kLargestOfInvocation = 16;

/// Numbers at the head of those that components share: the rules of its end and its steps.
inline constexpr std::size_t kMinimizerRules = 8;
/// Numbers that a component returns besides its x: initial cost, accepted and rejected steps, final
/// cost, and the number of its end (0: by no rule, 1: gradient, 2: change of the cost, 3: number of
/// steps, 4: predicted change).
inline constexpr std::size_t kMinimizerReport = 5;

/// Arrays of the kernel, in the order of their bindings.
enum class MinimizerBuffer : std::uint8_t { start, data, numbers, limits, end, report };
std::vector<MinimizerBuffer> buffers_of(const ComponentGroup& group);

/// All components of the group have the same bounds.
bool shares_limits(const LaneProgram& program);

/// Why a device cannot minimise the components of a group; empty: it can.
///
///   precision     f32 or f64
///   shared_bytes  shared memory of a workgroup
std::string obstacle_on_device(const ComponentGroup& group, Precision precision,
                               std::uint32_t shared_bytes);

/// Residuals, sums, LDLᵀ, trials and their acceptance. A component ends by the gradient, by
/// function_tolerance, by the number of steps, or where no step lowers the cost.
struct MinimizerKernel {
  std::string source;
  /// A component has 1, or those of a workgroup, which holds its numbers in shared memory.
  std::uint32_t invocations = 1;
  std::vector<std::uint32_t> tables;  ///< follow the numbers that components share
};

/// The kernel of a group without an obstacle.
MinimizerKernel minimizer_kernel(const LaneProgram& program, Precision precision,
                                 std::uint32_t shared_bytes);

namespace runtime::cpu {
class Pool;
}
namespace runtime::hybrid {
class DeviceBackend;
struct DeviceProgram;
}  // namespace runtime::hybrid

/// Dispatches, the bytes that they moved, and how long their kernels took.
struct MinimizerCounts {
  std::uint64_t dispatches = 0, bytes_up = 0, bytes_down = 0;
  double kernel_seconds = 0;
};

/// The facts about the chosen device on which the kernels depend.
struct MinimizerDevice {
  DeviceFacts facts;
  Precision precision = Precision::f32;  ///< f64 if that is asked for and the device has it

  /// Why it cannot minimise the components of a group; empty: it can.
  std::string obstacle_of(const ComponentGroup& group) const {
    return obstacle_on_device(group, precision, facts.shared_memory_bytes);
  }
};

/// A usable device, as far as the kernels depend on it.
MinimizerDevice minimizer_device(const DeviceFacts& facts, const SolverOptions& options);

/// Minimises components on a device. It keeps the kernels of the sources it has seen, and the
/// memory of its largest dispatch.
class DeviceMinimizer {
 public:
  /// Throws Error{Unsupported} if the device computes wrongly.
  ///
  ///   device  that the options choose
  DeviceMinimizer(const SolverOptions& options, MinimizerDevice device);
  ~DeviceMinimizer();

  const MinimizerDevice& device() const { return device_; }
  MinimizerKernel kernel_of(const LaneProgram& program) const {
    return minimizer_kernel(program, device_.precision, device_.facts.shared_memory_bytes);
  }

  /// Minimises all components of the group from x, as many in one dispatch as fit the device's
  /// buffers; nothing is read back before the last step of the last of them. Throws what the device
  /// throws.
  ///
  ///   kernel  kernel_of() the program
  ///   pool    gathers the numbers
  ///   minima  the result; overwritten
  void run(const LaneProgram& program, const MinimizerKernel& kernel, std::span<const double> x,
           runtime::cpu::Pool& pool, DeviceMinima& minima);

  /// Counts of the runs since the last call.
  MinimizerCounts take_counts() { return std::exchange(counts_, {}); }

 private:
  template <class T>
  struct Memory {
    std::vector<T> start, data, limits, end, report;
  };
  template <class T>
  void run_as(const LaneProgram& program, const MinimizerKernel& kernel, std::span<const double> x,
              runtime::cpu::Pool& pool, Memory<T>& memory, DeviceMinima& minima);
  void dispatch(runtime::hybrid::DeviceProgram& program, int most_steps);

  MinimizerDevice device_;
  std::unique_ptr<runtime::hybrid::DeviceBackend> backend_;
  MinimizerCounts counts_;
  Memory<float> f32_;
  Memory<double> f64_;
};

}  // namespace topograd
