// Preconditioners of the steps of the CPU engine: each is made again before every step.
#pragma once

#include "../../engine/engine.hpp"
#include "../../linear/preconditioner.hpp"
#include "../../model/model.hpp"
#include "../terms/block_layout.hpp"
#include "../tiles/pool.hpp"
#include "operators.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// The damped system of one step, A = JᵀJ + damping.
template <class T>
struct StepSystem {
  const BlockLayout& layout;
  const T* x;                           ///< the point
  const T* blocks;                      ///< diagonal blocks of JᵀJ, packed as the layout says
  const T* damping;                     ///< by scalar of x
  std::span<const std::uint8_t> fixed;  ///< by scalar of x, or empty: 1 = takes no part
  LinearOperator<T>& matrix;            ///< A
};

template <class T>
class StepPreconditioner : public HostPreconditioner<T> {
 public:
  /// The model may have changed; it outlives the preconditioner.
  virtual void follow(const Model& /*model*/) {}
  /// Another solve begins.
  virtual void begin_solve() {}
  /// M⁻¹ for the next step. What `system` refers to lives until the next build().
  virtual void build(Pool& pool, const StepSystem<T>& system) = 0;
  /// Conjugate gradients with it have ended.
  virtual void solved(int /*iterations*/) {}
  /// It is far from the diagonal, and says better than ‖r‖ where to stop.
  virtual bool is_norm() const { return false; }
  /// Since begin_solve().
  virtual PreconditionerUse use() const = 0;
  virtual std::vector<MemoryUse> memory() const = 0;
};

/// Throws nothing of its own.
template <class T>
std::unique_ptr<StepPreconditioner<T>> make_preconditioner(Preconditioner asked);

}  // namespace topograd::runtime::cpu
