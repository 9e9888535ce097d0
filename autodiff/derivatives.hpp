// Derivative programs of a residual block or an energy, one for each kind of kernel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../ir/program.hpp"

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

// E maps n parameters to one number: an energy, or cost(f) of a residual f. Its gradient is derived
// symbolically, simplified, and differentiated like any other program, so second derivatives follow
// the rules of first ones (rules.hpp), the zero rule included. Rounding has second derivative 0.
//
// At kinks of abs, min and max the second derivative is the mean of those of both sides; an even
// function of |x| has that of its smooth form. The same holds for lengths (kinks.hpp): squares,
// cosines and other even functions of a length L have the exact Hessian at L = 0. For others it has
// no limit there; the result then has the second derivative along rays from L = 0, which is 0 for a
// length itself, and search_for_kinks() finds such points.
//
// Throw Error{Shape} if E has not exactly one output, Error{InvalidArgument} for a slot that is not
// one of E's parameters.

/// ∇E for the given slots. Outputs: slots.size().
ir::Program scalar_gradient(const ir::Program& E, Slots slots);

/// ∇E for the given slots, then E. Outputs: slots.size() + 1.
ir::Program scalar_gradient_and_value(const ir::Program& E, Slots slots);

/// The rows `slots` of ∇²E·tangent; reads one Tangent leaf per parameter slot. Outputs:
/// slots.size().
/// Cost: at most a small multiple of the gradient's, independent of n.
ir::Program hvp(const ir::Program& E, Slots slots);

/// Upper triangle of ∇²E over `slots`, packed by rows: (s0,s0), (s0,s1), ..., (s1,s1), ... Cost: up
/// to slots.size() times that of hvp, less the nodes that columns share.
ir::Program hessian(const ir::Program& E, Slots slots);

/// A residual program r of m rows under a loss: its cost is ½ ρ(s), s = Σ r².
///
///   residual  its last loss.leaves.uniforms uniform slots are the loss's uniforms
///   loss      parameter 0 is s; one output, ρ(s); no data, no guards
struct Robust {
  const ir::Program& residual;
  const ir::Program& loss;
};

// The functions above for a robust block. With the derivatives ρ′ and ρ″ at s, α = 1 −
// √(1 + 2 s ρ″ / ρ′) if ρ″ > 0 and s > 0, else 0, and W = √ρ′ (I − (α / s) r rᵀ), the corrected
// residual is √ρ′ / (1 − α) r and the corrected Jacobian W J: then Jᵀr is the gradient of the cost,
// and JᵀJ stays positive semidefinite. Each function returns an optimised program.
//
// Source: Triggs, McLauchlan, Hartley, Fitzgibbon, Bundle Adjustment: A Modern Synthesis (2000),
// section 4.3, with α as Ceres Solver's Corrector chooses it.

ir::Program residual(const Robust& block);
ir::Program cost(const Robust& block);
/// s and ρ′(s).
ir::Program loss_slope(const Robust& block);
ir::Program jacobian(const Robust& block, std::span<const std::uint32_t> slots);
ir::Program residual_and_jacobian(const Robust& block, std::span<const std::uint32_t> slots);
ir::Program gradient(const Robust& block, std::span<const std::uint32_t> slots);
ir::Program gradient_and_cost(const Robust& block, std::span<const std::uint32_t> slots,
                              bool with_rows);
ir::Program jvp(const Robust& block);
ir::Program vjp(const Robust& block, std::span<const std::uint32_t> slots);
ir::Program jtjp(const Robust& block, std::span<const std::uint32_t> slots);
ir::Program jtjp(const Robust& block, std::span<const std::uint32_t> slots,
                 std::span<const std::uint32_t> moving);
ir::Program block(const Robust& block, std::span<const std::uint32_t> slots);
ir::Program diagonal(const Robust& block, std::span<const std::uint32_t> slots);

}  // namespace topograd::autodiff
