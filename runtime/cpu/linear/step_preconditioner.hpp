// Preconditioners of the CPU engine's steps, rebuilt before every step.
#pragma once

#include "../../../codegen/precision.hpp"
#include "../../../ir/machine/state_record.hpp"
#include "../../engine/engine.hpp"
#include "../../linear/choices.hpp"
#include "../../model/model.hpp"
#include "../terms/block_layout.hpp"
#include "../terms/term_costs.hpp"
#include "../tiles/pool.hpp"
#include "conjugate_gradients.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

using codegen::Bits;

/// The damped system of one step, A = JᵀJ + damping.
template <class T>
struct StepSystem {
  const BlockLayout& layout;
  const SumRanges& sums;                ///< ranges of the first part of M⁻¹
  const T* x;                           ///< the point
  const T* blocks;                      ///< diagonal blocks of JᵀJ, packed as the layout says
  const T* damping;                     ///< by scalar of x
  std::span<const std::uint8_t> fixed;  ///< by scalar of x, or empty: 1 = fixed
  LinearOperator<T>& matrix;            ///< A
};

template <class T>
class StepPreconditioner : public HostPreconditioner<T> {
 public:
  /// Called when the model may have changed; it outlives the preconditioner.
  virtual void follow(const Model& /*model*/) {}
  /// Marks the start of another solve.
  virtual void begin_solve() {}
  /// As DampedSteps::transfer().
  virtual void transfer(ir::StateRecord& /*record*/) {}
  /// Builds M⁻¹ for the next step. The data of `system` live until the next build().
  virtual void build(Pool& pool, const StepSystem<T>& system) = 0;
  /// Called after conjugate gradients with it.
  virtual void solved(int /*iterations*/) {}
  /// True if M is so different from the diagonal that its norm is a better stopping test than ‖r‖.
  virtual bool is_norm() const { return false; }
  /// Use since begin_solve().
  virtual PreconditionerUse use() const = 0;
  virtual std::vector<MemoryUse> memory() const = 0;
};

/// Makes the preconditioner: make_NAME<T>(asked, bits) of its row in preconditioners.def. Throws
/// Error{Unsupported} if it exists on devices alone.
template <class T>
std::unique_ptr<StepPreconditioner<T>> make_preconditioner(Preconditioner asked, Bits bits);

}  // namespace topograd::runtime::cpu
