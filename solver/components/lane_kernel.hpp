// The kernel of a residual block that adds its cost, gradient and JᵀJ to those of its component.
#pragma once

#include "../../autodiff/rolled_program.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "groups.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// A program that runs for one residual block of each component, whose leaves are columns by lane.
struct LanePart {
  /// A sum of the component, or a number that the steps of a loop hand on.
  struct Target {
    bool carried = false;
    std::uint32_t number = 0;
    bool operator==(const Target&) const = default;
  };

  /// Leaves, all as data: data slots, then uniforms, parameters, and targets.
  ir::Program program;
  std::vector<autodiff::RolledProgram::Datum> data;  ///< by data slot: the slot of the block
  std::vector<Target> targets;                       ///< by leaf from first_target on
  std::vector<Target> outputs;                       ///< what each output replaces
  std::uint32_t first_uniform = 0, first_parameter = 0, first_target = 0;
  std::uint32_t steps = 1;  ///< it runs so often
};

/// Lanes are components: the kernel adds one residual block of each of them to its sums. 0: twice
/// the cost; then the entries of the gradient by free parameter; then JᵀJ over these, by rows of
/// the upper triangle.
///
/// A block that repeats itself, such as a simulation, has three parts: what comes before its loop,
/// a step with its derivatives, and what comes after. Others have one.
class LaneKernel {
 public:
  ///   of  outlives it
  LaneKernel(const ComponentKernel& of, codegen::Bits bits);

  std::span<const LanePart> parts() const { return parts_; }
  const runtime::cpu::TileKernel<double>& tile(std::size_t part) const { return tiles_[part]; }
  /// A part of it is a loop.
  bool is_rolled() const {
    return std::ranges::any_of(parts_, [](const LanePart& part) { return part.steps > 1; });
  }
  /// Numbers of a lane that parts hand on; steps replace the first `carried_by_steps()`.
  std::uint32_t carried() const { return carried_; }
  std::uint32_t carried_by_steps() const { return carried_by_steps_; }
  /// Numbers of the free parameters.
  const std::vector<std::uint32_t>& free() const { return free_; }

  /// r, then J over the free parameters row by row, both corrected for the loss. Its leaves are
  /// columns, too, but of one component: data, uniforms, parameters. Derived when it is first asked
  /// for, by any thread.
  const runtime::cpu::TileKernel<double>& rows() const;
  std::size_t row_count() const { return row_count_; }
  /// The Hessian of the cost over the free parameters, its upper triangle by rows. Leaves as those
  /// of rows(). Derived when it is first asked for, by any thread.
  const runtime::cpu::TileKernel<double>& curvature() const;
  /// The cost; then, if there are kinks by free parameters, a number that is not negative at one of
  /// them from which the cost falls. Leaves as those of rows(). Derived when it is first asked for,
  /// by any thread.
  const runtime::cpu::TileKernel<double>& kinks() const;

 private:
  struct Late {
    std::once_flag once;
    std::optional<runtime::cpu::TileKernel<double>> tile;
  };
  const runtime::cpu::TileKernel<double>& made(Late& late,
                                               ir::Program (*derive)(const ComponentKernel&)) const;

  const ComponentKernel* of_;
  codegen::Bits bits_;
  std::size_t row_count_ = 0;
  std::uint32_t carried_ = 0, carried_by_steps_ = 0;
  std::vector<std::uint32_t> free_;
  std::vector<LanePart> parts_;
  std::vector<runtime::cpu::TileKernel<double>> tiles_;  // by part
  std::unique_ptr<Late> rows_ = std::make_unique<Late>(), curvature_ = std::make_unique<Late>(),
                        kinks_ = std::make_unique<Late>();
};

/// Outputs: twice the cost of a residual block, r, then J over the free parameters row by row, both
/// corrected for the loss. Leaves: the term's data and uniforms, then its parameters, all as data.
ir::Program cost_and_rows(const ComponentKernel& of);

}  // namespace topograd
