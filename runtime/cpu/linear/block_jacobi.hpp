// The block-Jacobi preconditioner: inverses of the damped diagonal blocks of JᵀJ.
#pragma once

#include "../tiles/column.hpp"
#include "step_preconditioner.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd::runtime::cpu {

/// Fixed scalars have the rows and columns of the identity. Blocks that are not positive definite,
/// and those wider than kWidestDenseBlock, are inverted by their diagonal alone; a diagonal entry
/// that is not positive counts as 1.
template <class T>
class BlockJacobi final : public StepPreconditioner<T> {
 public:
  using typename HostPreconditioner<T>::Range;

  std::size_t ranges() const override;
  Range range(std::size_t k) const override;
  void apply(std::size_t k, const T* r, T* z) const override;

  void build(Pool& pool, const StepSystem<T>& system) override;
  PreconditionerUse use() const override {
    return {.asked_for = true, .why = {PreconditionerReason::asked_for}};
  }
  std::vector<MemoryUse> memory() const override;

 private:
  const BlockLayout* layout_ = nullptr;
  const SumRanges* sums_ = nullptr;
  Column<T> inverse_;
};

}  // namespace topograd::runtime::cpu
