// Passes: the values that a kernel computes for one instance of a topology.
#pragma once

#include "../../ir/enum_table.hpp"

namespace topograd::runtime {

/// Engines evaluate those up to `values` over all terms; the others are parts of them.
enum class Pass {
  residual,         ///< m rows
  cost,             ///< one number
  gradient,         ///< Jᵀr, by slot
  jacobian,         ///< m x n, row-major
  jtjp,             ///< Jᵀ(J·direction), by slot
  blocks,           ///< upper triangle of JᵀJ over the slots of a group, by owner
  jvp,              ///< m rows of J·direction
  vjp,              ///< Jᵀ·seeds, by slot
  hvp,              ///< ∇²E·direction, by slot; E is ½ Σ r², or the energy
  hessian,          ///< upper triangle of ∇²E over all slots, packed by rows
  cost_gradient,    ///< gradient by slot, then the cost
  values,           ///< the same, then m rows; energies have none
  stored_jacobian,  ///< m x slots, row-major: input of stored_jtjp
  stored_jtjp,      ///< jtjp from a stored Jacobian, whose entries are the data columns
  diagonal,         ///< diagonal of JᵀJ, by slot
  guards            ///< one number: 1 if a guard fails, else 0
};
TG_ENUM_NAMES(Pass)
inline constexpr int kEvaluations = static_cast<int>(Pass::values) + 1;

}  // namespace topograd::runtime
