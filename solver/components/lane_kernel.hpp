// The kernel of a residual block that adds its cost, gradient and JᵀJ to those of its component.
#pragma once

#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "groups.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace topograd {

/// Lanes are components: the kernel runs for one residual block of each of them. All its leaves are
/// columns by lane: data and uniforms, parameters, and the sums to which it adds.
class LaneKernel {
 public:
  ///   of  outlives it
  LaneKernel(const ComponentKernel& of, codegen::Bits bits);

  const runtime::cpu::TileKernel<double>& tile() const { return tile_; }
  /// The program of the tile, whose leaves are data alone: data slots, parameters, sums.
  const ir::Program& added() const { return added_; }
  /// Data slots: the term's data, then its uniforms.
  std::uint32_t data() const { return data_; }
  std::uint32_t parameters() const { return parameters_; }
  /// By output: the sum that it replaces. 0: twice the cost; then the entries of the gradient by
  /// free parameter; then JᵀJ over these, by rows of the upper triangle.
  const std::vector<std::uint32_t>& sums() const { return sums_; }
  /// Numbers of the free parameters.
  const std::vector<std::uint32_t>& free() const { return free_; }
  /// First column of the sums among the leaves.
  std::uint32_t first_sum() const { return data_ + parameters_; }

  /// r, then J over the free parameters row by row, both corrected for the loss. Its leaves are
  /// columns, too, but of one component.
  const runtime::cpu::TileKernel<double>& rows() const { return rows_; }
  std::size_t row_count() const { return row_count_; }
  /// The Hessian of the cost over the free parameters, its upper triangle by rows. Leaves as those
  /// of rows(). Derived when it is first asked for, by any thread.
  const runtime::cpu::TileKernel<double>& curvature() const;

 private:
  struct Late {
    std::once_flag once;
    std::optional<runtime::cpu::TileKernel<double>> tile;
  };

  const ComponentKernel* of_;
  codegen::Bits bits_;
  std::uint32_t data_ = 0, parameters_ = 0;
  std::size_t row_count_ = 0;
  std::vector<std::uint32_t> free_, sums_;
  ir::Program added_;
  runtime::cpu::TileKernel<double> tile_, rows_;
  std::unique_ptr<Late> curvature_ = std::make_unique<Late>();
};

/// Outputs: twice the cost of a residual block, r, then J over the free parameters row by row, both
/// corrected for the loss. Leaves: the term's data and uniforms, then its parameters, all as data.
ir::Program cost_and_rows(const ComponentKernel& of);

}  // namespace topograd
