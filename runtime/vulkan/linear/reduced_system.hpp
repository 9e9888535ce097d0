// A Schur complement on the device, as conjugate gradients see it.
#pragma once

#include "../../linear/schur_plan.hpp"
#include "device_system.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Invocations that share a row of so many entries on average, as many as its length asks for; on a
/// software device they run in turn.
std::uint32_t lanes_of_rows(const Context& context, std::uint64_t entries, std::uint64_t rows);

/// Inverts damped diagonal blocks, by width.
void record_inverses(CommandList& list, VectorOps& vectors,
                     std::span<const SchurPlan::Blocks> widths,
                     const kernel::schur_invert::Buffers& with);

/// The system of the blocks that remain after an elimination.
class ReducedSystem final : public DeviceSystem {
 public:
  /// Written by the elimination before record_begin().
  struct Input {
    Buffer complement, packed_blocks, gradient;
  };

  /// Context, vectors and plan outlive this; it keeps what it needs of plan.complement.
  ReducedSystem(Context& context, VectorOps& vectors, const SchurPlan& plan);

  const Input& input() const { return input_; }
  const Buffer& rows() const { return rows_; }
  const Buffer& step() const { return v_.step; }
  const Buffer& residual() const { return v_.residual; }
  /// Zeros, by unknown: nothing is damped or fixed here.
  const Buffer& no_damping() const { return no_damping_; }
  const Buffer& none_fixed() const { return none_fixed_; }

  SystemVectors vectors() override;
  void record_begin(CommandList& list) override;
  std::uint32_t record_product(CommandList& list, const Direction& direction) override;

 private:
  std::uint32_t row_groups() const;

  Context& context_;
  VectorOps& vectors_;
  const SchurPlan& plan_;
  std::uint32_t lanes_ = 1;  // invocations that share a row of a product
  Input input_;
  Buffer rows_, columns_, places_;
  Buffer inverse_blocks_;
  Buffer no_damping_, none_fixed_;  // zeros
  struct Vectors {
    Buffer step, residual, product, preconditioned, directions[2];
    Buffer partials, curvature, decision;
  } v_;  // of conjugate gradients
  std::vector<DiagonalBlocks> blocks_;
  std::uint32_t block_groups_ = 0;
};

}  // namespace topograd::runtime::vulkan
