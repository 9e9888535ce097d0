// Products with JᵀJ on the device, and what they are made from at each linearisation.
#pragma once

#include "../../linear/choices.hpp"
#include "../terms/term_sums.hpp"
#include "device_matrix.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

class NormalProducts : Part {
 public:
  /// Choices for the kernels in use, and buffers made for them.
  struct Made {
    std::optional<bool> can_fuse;          ///< known once it was asked
    std::vector<FusedProduct> fused;       ///< if so
    std::vector<Buffer> jacobians;         ///< by term, where products are made from them
    std::unique_ptr<DeviceMatrix> matrix;  ///< if products are made from JᵀJ itself
  };

  /// All of these outlive it.
  NormalProducts(const Part& part, TermSums& sums) : Part(part), sums_(sums) {}

  /// Chooses, and makes buffers for it.
  void choose();
  /// Buffers of partial sums of the curvature.
  void make_curvature();

  /// Records the data of a linearisation from which products and preconditioner are made.
  void record_matrix(CommandList& list);
  void record(CommandList& list, const Operands& operands, const Buffer& out);
  /// Null where products are not made from it.
  DeviceMatrix* matrix() const { return made_->matrix.get(); }
  /// True if every block is written by one work item of one dispatch: the product can bring the
  /// direction up to date as it reads it.
  bool can_fuse();
  /// The dispatches of one that does.
  const std::vector<FusedProduct>& fused() const { return made_->fused; }

  void swap(Made& made) { std::swap(*made_, made); }
  /// Copies data columns of small terms again.
  void refresh_data() { refresh_data(*made_); }
  static void refresh_data(Made& made);

  const NormalMatrixUse& use() const { return *use_; }
  std::string name() const;  ///< as PlanRecord::product

 private:
  bool stores_jacobian() const { return !made_->jacobians.empty(); }
  NormalPlan plan_blocks(std::uint64_t most_bytes) const;
  void make_jacobians(bool products);
  void record_stored_jtjp(CommandList& list, const Operands& operands, const Buffer& out);
  void record_jacobians(CommandList& list);
  std::vector<FusedProduct> find_fused();

  TermSums& sums_;
  Derived<Made> made_{recorder_.structure};
  Derived<NormalMatrixUse> use_{recorder_.structure};
};

}  // namespace topograd::runtime::vulkan
