// JᵀJ on the device: its blocks from Jacobians, and products with it.
#pragma once

#include "../../linear/normal_matrix.hpp"
#include "../../linear/normal_plan.hpp"
#include "../recording/block_range.hpp"
#include "../recording/vector_ops.hpp"
#include "device_products.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// The matrix of one model, and its pattern. Nothing in it is fixed: residuals of fixed scalars are
/// 0, so that their columns are multiplied by 0 and their rows are not read.
class DeviceMatrix {
 public:
  using Terms = std::span<const std::unique_ptr<DeviceTerm>>;

  /// Returns MatrixReason::none if matrix and lists fit the range of a storage buffer and Jacobians
  /// are in one piece, else the reason why not.
  static Why<MatrixReason> obstacle(const Context& context, const NormalPlan& plan, Terms terms);
  /// Bytes that a product reads of it.
  static std::uint64_t bytes(const Context& context, const NormalPlan& plan);

  ///   plan    possible, and without an obstacle
  ///   ranges  the blocks of x, as they are preconditioned
  ///
  /// Context outlives this.
  DeviceMatrix(Context& context, const NormalPlan& plan, Terms terms,
               std::span<const BlockRange> ranges);

  const NormalMatrixUse& use() const { return use_; }

  /// Values from Jacobians, by term, and packed diagonal blocks. Begins behind the caller's
  /// barrier, ends with one to come.
  void record_values(CommandList& list, VectorOps& vectors, std::span<const Buffer> jacobians,
                     const Buffer& packed);
  /// product = JᵀJ direction.
  void record_multiply(CommandList& list, VectorOps& vectors, const Buffer& direction,
                       const Buffer& product);
  /// The damped product of an iteration, and its curvature; the partial sums of that.
  std::uint32_t record_product(CommandList& list, VectorOps& vectors,
                               const kernel::matrix_product::Buffers& with);
  /// The residual of the damped normal equations at a step, its direction.
  void record_residual(CommandList& list, VectorOps& vectors,
                       const kernel::matrix_residual::Buffers& with);
  const Buffer& values() const { return values_; }
  /// Partial sums of the curvature.
  std::uint32_t groups() const;

 private:
  template <class Kernel>
  std::uint32_t record_rows(CommandList& list, VectorOps& vectors, Kernel kernel);
  std::uint32_t groups_of(const BlockRange& range) const;

  Context& context_;
  std::vector<BlockRange> ranges_;
  std::vector<std::uint32_t> first_rows_;  // by range: its first block
  std::uint32_t lanes_ = 1;                // invocations that share a row of blocks
  std::vector<DeviceProducts> products_;
  Buffer rows_, columns_, values_;
  NormalMatrixUse use_;
};

}  // namespace topograd::runtime::vulkan
