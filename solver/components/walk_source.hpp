// Kernels in which components walk to their minima on a device: the whole loop of each.
#pragma once

#include "../../codegen/kernel.hpp"
#include "groups.hpp"
#include "lane_solver.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// Most unknowns of a component that walks, and of one whose numbers a single invocation holds.
inline constexpr std::uint32_t kLargestWalk = 64;
inline constexpr std::uint32_t kLargestOfInvocation = 16;

/// Numbers at the head of those that components share: the rules of a walk.
inline constexpr std::size_t kWalkRules = 8;
/// Numbers of a walk besides its x: initial cost, accepted and rejected steps, final cost, and the
/// number of its end (0: by no rule, 1: gradient, 2: change of the cost, 3: number of steps, 4:
/// predicted change).
inline constexpr std::size_t kWalkReport = 5;

/// Arrays of a walk's kernel, in the order of their bindings.
enum class WalkBuffer : std::uint8_t { start, data, numbers, limits, end, report };
std::vector<WalkBuffer> buffers_of_walk(const ComponentGroup& group);

/// All components of the group have the same bounds.
bool shares_limits(const LaneProgram& program);

/// Why the components of a group cannot walk on a device; empty: they can.
///
///   precision     f32 or f64
///   shared_bytes  shared memory of a workgroup
std::string obstacle_of_walk(const ComponentGroup& group, Precision precision,
                             std::uint32_t shared_bytes);

/// Residuals, sums, LDLᵀ, trials and their acceptance. A walk ends by the gradient, by
/// function_tolerance, by the number of steps, or where no step lowers the cost.
struct WalkKernel {
  std::string source;
  /// Of each component: 1, or those of a workgroup, which holds its numbers in shared memory.
  std::uint32_t invocations = 1;
  std::vector<std::uint32_t> tables;  ///< follow the numbers that components share
};

/// The kernel of a group without an obstacle.
WalkKernel walk_kernel(const LaneProgram& program, Precision precision, std::uint32_t shared_bytes);

}  // namespace topograd
