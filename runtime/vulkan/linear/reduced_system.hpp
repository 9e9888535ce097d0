// Conjugate gradients on a Schur complement on the device.
#pragma once

#include "../../linear/schur_plan.hpp"
#include "../recording/vector_ops.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan {

/// Invocations that share a row of so many entries on average, as many as its length asks for; on a
/// software device they run in turn.
std::uint32_t lanes_of_rows(const Context& context, std::uint64_t entries, std::uint64_t rows);

/// The system of the blocks that remain after an elimination, preconditioned by its diagonal
/// blocks. Every record_ function begins with a barrier of its own, and leaves its results behind
/// the caller's next one.
class ReducedSystem {
 public:
  /// Written by the elimination before record_start().
  struct Input {
    Buffer complement, packed_blocks, gradient;
  };

  /// Context, vectors and plan outlive this; it keeps what it needs of plan.rows and plan.columns.
  ReducedSystem(Context& context, VectorOps& vectors, const SchurPlan& plan);

  const Input& input() const { return input_; }
  const Buffer& rows() const { return rows_; }
  const Buffer& step() const { return step_; }
  const Buffer& residual() const { return residual_; }

  /// Kernels of all that it records.
  void need(Needs& needs) const;
  /// Begins to solve.
  void record_start(CommandList& list);
  /// An even number of iterations.
  void record_iterations(CommandList& list, int count);

 private:
  /// Records a kernel for each width of blocks; returns the workgroups.
  template <class Kernel>
  std::uint32_t record_by_blocks(CommandList& list, Kernel kernel);
  std::uint32_t block_groups() const;
  std::uint32_t row_groups() const;

  Context& context_;
  VectorOps& vectors_;
  const SchurPlan& plan_;
  std::uint32_t lanes_ = 1;  // invocations that share a row of a product
  Input input_;
  Buffer rows_, columns_, places_;
  Buffer inverse_blocks_;
  Buffer no_damping_, none_fixed_;  // zeros
  Buffer step_, residual_, product_, preconditioned_, directions_[2];
  Buffer partials_, curvature_, decision_;
};

}  // namespace topograd::runtime::vulkan
