// JᵀJ on the device: its blocks from Jacobians, and products with it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../../linear/block_rows.hpp"
#include "../../linear/choices.hpp"
#include "../../linear/normal_plan.hpp"
#include "../recording/vector_ops.hpp"
#include "../terms/device_term.hpp"

namespace topograd::runtime::vulkan {

/// Columns of Pass::stored_jacobian: how many there are, and which one is coordinate c of group g
/// of slots, at g * kMaxBlockWidth + c; kNone where nothing is differentiated by it.
struct JacobianColumns {
  static constexpr std::uint32_t kNone = ~0u;
  std::uint32_t count = 0;
  std::vector<std::uint32_t> by_group;
};
JacobianColumns jacobian_columns(const TermShape& shape);

/// True if the Jacobian can be stored in one range, instances in one piece.
bool jacobian_fits(const Context& context, const DeviceTerm& term);

struct DeviceProducts {
  ///   name  of buffers: a literal
  DeviceProducts(Context& context, const BlockProducts& products, const DeviceTerm& of,
                 const char* name)
      : term(products.term),
        shapes(products.shapes),
        rows(of.outputs()),
        instances(static_cast<std::uint32_t>(of.instances())) {
    const JacobianColumns jacobian = jacobian_columns(of.shape());
    const auto words = [&](std::span<const std::uint32_t> list) {
      return make_buffer(context, list, name);
    };
    columns = jacobian.count;
    slots = words(jacobian.by_group);
    outputs = words(products.outputs);
    starts = words(products.starts);
    entries = words(products.entries);
  }

  /// Sums the products into the blocks of `kernel`, whose lists and sizes are set here.
  template <class Kernel>
  void record(CommandList& list, VectorOps& vectors, Kernel kernel) const {
    kernel.buffers.starts = starts;
    kernel.buffers.entries = entries;
    kernel.buffers.outputs = outputs;
    kernel.buffers.column_numbers = slots;
    kernel.push.residuals = rows;
    kernel.push.columns = columns;
    kernel.push.instances = instances;
    for (const BlockShape& shape : shapes) {
      kernel.push.count = shape.count * shape.rows * shape.columns;
      kernel.push.first = shape.first;
      kernel.push.block_rows = shape.rows;
      kernel.push.block_columns = shape.columns;
      vectors.record(list, kernel);
    }
  }

  std::size_t term;
  std::vector<BlockShape> shapes;
  std::uint32_t rows, columns = 0, instances;  // of the stored Jacobian
  Buffer slots, outputs, starts, entries;
};

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
