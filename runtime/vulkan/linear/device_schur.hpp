// The Schur complement on the device: assembled from Jacobians, solved by conjugate gradients.
#pragma once

#include "../../linear/schur_plan.hpp"
#include "../recording/vector_ops.hpp"
#include "../terms/device_term.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime::vulkan {

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

  /// Returns "" if matrices and lists fit the range of a storage buffer and Jacobians are in one
  /// piece, else the reason why not.
  static std::string obstacle(const Context& context, const SchurPlan& plan, Terms terms);

  ///   plan                possible, and without an obstacle
  ///   diagonal_positions  of each scalar in the packed diagonal blocks
  ///
  /// Context, vectors and terms outlive this.
  DeviceSchur(Context& context, VectorOps& vectors, SchurPlan plan, Terms terms,
              std::span<const std::uint32_t> diagonal_positions);

  const SchurPlan& plan() const { return plan_; }

  /// Kernels of all that it records.
  void need(Needs& needs) const;
  /// Eliminates at the point where gradient and diagonal blocks were taken, with the damping that
  /// the scalars say, and begins to solve.
  void record_start(CommandList& list, const Operands& at, const SchurOperands& with);
  /// An even number of iterations.
  void record_iterations(CommandList& list, int count);
  /// Step and residual of all scalars.
  void record_finish(CommandList& list, const SchurOperands& with);

 private:
  struct Products {  // products of one term
    std::size_t term = 0;
    std::vector<SchurPlan::Group> groups;
    Buffer meetings, starts, entries, slots, jacobian;
    std::uint32_t columns = 0;  // columns of the stored Jacobian
  };

  void add_products(const SchurPlan::Products& products, const DeviceTerm& term);
  void record_meetings(CommandList& list, const Operands& at, const SchurOperands& with);
  void record_elimination(CommandList& list, const SchurOperands& with);
  void record_complement(CommandList& list, const SchurOperands& with);
  template <class Kernel>
  void record_group(CommandList& list, Kernel kernel, const SchurPlan::Group& group);
  /// As VectorOps::record() for each width of kept blocks; returns the workgroups.
  template <class Kernel>
  std::uint32_t record_by_blocks(CommandList& list, Kernel kernel);
  std::uint32_t block_groups() const;
  std::uint32_t row_groups() const;

  Context& context_;
  VectorOps& vectors_;
  SchurPlan plan_;
  Terms terms_;
  std::uint32_t gradient_lanes_ = 1, product_lanes_ = 1;  // invocations that share a row
  std::vector<Products> products_;
  Buffer diagonal_;  // places of scalars in the packed blocks
  Buffer eliminated_, eliminated_places_, back_starts_, back_entries_, coupling_words_;
  Buffer kept_scalars_, kept_places_, row_starts_, row_entries_, rows_, columns_;
  Buffer piece_starts_, piece_entries_, piece_outputs_, block_words_, block_starts_, block_pieces_;
  Buffer meetings_, couplings_, inverses_, pieces_, values_, packed_, packed_inverses_, none_;
  Buffer free_;  // zeros: kernels of the reduced system have no fixed scalars
  Buffer gradient_, step_, residual_, product_, preconditioned_, directions_[2];
  Buffer partials_, curvature_, decision_;
};

}  // namespace topograd::runtime::vulkan
