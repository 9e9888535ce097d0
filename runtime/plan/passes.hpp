// Programs of the passes.
#pragma once

#include "../../ir/program.hpp"
#include "pass.hpp"
#include "plan.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace topograd::runtime {

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

/// Number of sums of an owner of `width` scalars: width, or width (width + 1) / 2 for blocks.
std::uint32_t sums_of_owner(Pass pass, std::uint32_t width);

/// For each output of pass_program(pass, f, group.slots), the owner's sum to which it is added.
std::vector<std::uint32_t> targets(Pass pass, const SlotGroup& group, std::uint32_t width);

}  // namespace topograd::runtime
