// The Schur complement on the device: assembled from Jacobians, solved by conjugate gradients or a
// factor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../../linear/schur_plan.hpp"
#include "../recording/vector_ops.hpp"
#include "conjugate_gradients.hpp"
#include "device_factor.hpp"
#include "device_matrix.hpp"

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
  Buffer rows_, columns_, block_positions_;
  Buffer inverse_blocks_;
  Buffer no_damping_, none_fixed_;  // zeros
  struct Vectors {
    Buffer step, residual, product, preconditioned, directions[2];
    Buffer partials, curvature, decision;
  } v_;  // of conjugate gradients
  std::vector<DiagonalBlocks> blocks_;
  std::uint32_t block_groups_ = 0;
};

/// Vectors of all scalars that the elimination reads and writes.
struct SchurOperands {
  const Buffer* gradient = nullptr;
  const Buffer* blocks = nullptr;  ///< packed diagonal blocks
  const Buffer* scale = nullptr;
  const Buffer* damping = nullptr;
  const Buffer* fixed = nullptr;
  const Buffer* step = nullptr;
  const Buffer* residual = nullptr;
};

/// Every record_ function begins with a barrier of its own, and leaves its results behind the
/// caller's next one.
class DeviceSchur {
 public:
  using Terms = std::span<const std::unique_ptr<DeviceTerm>>;

  /// Returns MatrixReason::none if matrices and lists fit the range of a storage buffer and
  /// Jacobians are in one piece, else the reason why not.
  static Why<MatrixReason> obstacle(const Context& context, const SchurPlan& plan, Terms terms);

  ///   plan                possible, and without an obstacle
  ///   diagonal_positions  of each scalar in the packed diagonal blocks
  ///
  /// Context, vectors and terms outlive this.
  DeviceSchur(Context& context, VectorOps& vectors, SchurPlan plan, Terms terms,
              std::span<const std::uint32_t> diagonal_positions);

  const SchurPlan& plan() const { return plan_; }

  /// Eliminates at the point where gradient and diagonal blocks were taken, with the damping that
  /// the scalars say, and begins to solve.
  void record_start(CommandList& list, const Operands& at, const SchurOperands& with);
  /// Eliminates in the same way, and solves by a factor of the complement; only where
  /// factor_dispatches() is not 0.
  void record_factored(CommandList& list, const Operands& at, const SchurOperands& with);
  /// Dispatches of a factorisation with a solution; 0: the complement is too large, or in f32.
  std::uint64_t factor_dispatches() const { return factor_ ? factor_->dispatches() : 0; }
  /// An even number of iterations.
  void record_iterations(CommandList& list, int count) {
    gradients().record_iterations(list, count);
  }
  /// Step and residual of all scalars.
  void record_finish(CommandList& list, const SchurOperands& with);

 private:
  struct Lists {  // of u32, by output
    Buffer starts, entries, outputs;
  };

  ConjugateGradients gradients() { return {vectors_, reduced_, {}}; }
  void record_eliminated(CommandList& list, const Operands& at, const SchurOperands& with);
  void record_meetings(CommandList& list, const Operands& at, const SchurOperands& with);
  void record_elimination(CommandList& list, const SchurOperands& with);
  void record_complement(CommandList& list, const SchurOperands& with);
  template <class Kernel>
  void record_group(CommandList& list, Kernel kernel, const BlockShape& group);

  Context& context_;
  VectorOps& vectors_;
  SchurPlan plan_;
  Terms terms_;
  ReducedSystem reduced_;
  std::unique_ptr<DeviceFactor> factor_;  // null: it cannot be factorised
  std::uint32_t gradient_lanes_ = 1;      // invocations that share a row of the reduced gradient
  std::vector<DeviceProducts> products_;
  std::vector<Buffer> jacobians_;  // by products
  Buffer diagonal_;                // offsets of scalars in the packed blocks
  Buffer eliminated_, eliminated_positions_, coupling_words_, kept_scalars_;
  Lists back_lists_, row_lists_, piece_lists_, block_lists_;
  struct Values {  // of blocks, at their positions in the plan
    Buffer meetings, couplings, inverses, pieces;
  } values_;
};

}  // namespace topograd::runtime::vulkan
