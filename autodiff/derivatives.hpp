// Derivative programs of a residual block, one for each kind of kernel.
#pragma once

#include "../ir/program.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::autodiff {

/// Parameter slots with respect to which a program is differentiated, in output order.
using Slots = std::span<const std::uint32_t>;

/// 0, 1, ..., n-1 for the n parameter slots of `f`.
std::vector<std::uint32_t> all_slots(const ir::Program& f);

// f maps n parameters to m rows r; J = dr/dp is (m, n). Every function returns an optimised program
// whose derivatives are exact (symbolic), follow the zero rule (a zero adjoint or tangent times an
// infinite or NaN local derivative is zero) and keep f's guards. Structural zeros are the literal
// 0.

/// Jᵀ·seed for the given slots; reads one Seed leaf per row. Outputs: slots.size().
ir::Program vjp(const ir::Program& f, Slots slots);

/// J·tangent; reads one Tangent leaf per parameter slot. Outputs: m.
ir::Program jvp(const ir::Program& f);

/// J, row-major. Outputs: m * slots.size(). Uses the mode, forward or reverse, with fewer
/// operations.
ir::Program jacobian(const ir::Program& f, Slots slots);

/// r, then J row-major: m + m * slots.size() outputs.
ir::Program residual_and_jacobian(const ir::Program& f, Slots slots);

/// ½ Σ r². One output.
ir::Program cost(const ir::Program& f);

/// Jᵀr, the gradient of the cost, for the given slots. Outputs: slots.size().
ir::Program gradient(const ir::Program& f, Slots slots);

/// The gradient for the given slots, then the cost, then r if `with_rows`, from one forward sweep.
/// Outputs: slots.size() + 1, + m with rows.
ir::Program gradient_and_cost(const ir::Program& f, Slots slots, bool with_rows);

/// Jᵀ(J·tangent) for the given slots. Outputs: slots.size().
ir::Program jtjp(const ir::Program& f, Slots slots);

/// jtjp() for tangents that are zero in all slots but `moving`.
ir::Program jtjp(const ir::Program& f, Slots slots, Slots moving);

/// Upper triangle of JᵀJ over `slots`, packed by rows: (s0,s0), (s0,s1), ..., (s1,s1), ...
ir::Program block(const ir::Program& f, Slots slots);

/// The diagonal of JᵀJ over `slots`. Cost: that of the Jacobian, linear in the number of slots.
ir::Program diagonal(const ir::Program& f, Slots slots);

}  // namespace topograd::autodiff
