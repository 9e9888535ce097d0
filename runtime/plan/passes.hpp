// Passes: the values that a kernel computes for one instance of a topology, and their programs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "../../ir/enum_table.hpp"
#include "../../ir/program.hpp"
#include "plan.hpp"

namespace topograd::runtime {

/// Engines evaluate those up to `values` over all terms; the others are parts of them.
enum class Pass {
  residual,         ///< m rows
  cost,             ///< one number
  gradient,         ///< Jᵀr, by slot
  jacobian,         ///< m x n, row-major
  jtjp,             ///< Jᵀ(J·direction), by slot
  blocks,           ///< upper triangle of JᵀJ over the slots of a group, by block
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
/// The pass of `passes` with this name. Throws Error{InvalidArgument} with `expected`, such as
/// "dump: expected --kernel", the names, and the text.
Pass pass_named(std::string_view text, std::span<const Pass> passes, std::string_view expected);
inline constexpr int kEvaluations = static_cast<int>(Pass::values) + 1;

/// True for several values from one sweep; the terms summed by slot are those of the gradient.
constexpr bool has_values(Pass pass) { return pass == Pass::cost_gradient || pass == Pass::values; }
/// Number of rows that such a pass stores for an instance of `f`.
std::uint32_t rows_beside(Pass pass, const ir::Program& f, bool energy);

/// Outputs of `pass` of the residual program `f` with respect to `slots` (ignored by the first
/// four, hessian and guards). An energy has residual (the energy itself), cost, gradient, hvp,
/// hessian, guards, cost_gradient and values of its one output.
///
///   loss  of the block (Term::loss), or null; with a loss, residual and Jacobian are corrected
ir::Program pass_program(Pass pass, const ir::Program& f, std::span<const std::uint32_t> slots,
                         bool energy = false, const ir::Program* loss = nullptr);

/// True if energies take part in this pass over all terms of a model.
bool energies_take_part(Pass pass);

/// Number of sums of a block of `width` scalars: width, or width (width + 1) / 2 for blocks.
std::uint32_t sums_of_block(Pass pass, std::uint32_t width);

/// For each output of pass_program(pass, f, group.slots), the block's sum to which it is added.
std::vector<std::uint32_t> targets(Pass pass, const SlotGroup& group, std::uint32_t width);

}  // namespace topograd::runtime
