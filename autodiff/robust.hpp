// Derivative programs of a residual block under a robust loss.
#pragma once

#include "../ir/program.hpp"

#include <cstdint>
#include <span>

namespace topograd::autodiff {

/// A residual program r of m rows under a loss: its cost is ½ ρ(s), s = Σ r².
///
///   residual  its last loss.leaves.uniforms uniform slots are the loss's uniforms
///   loss      parameter 0 is s; one output, ρ(s); no data, no guards
struct Robust {
  const ir::Program& residual;
  const ir::Program& loss;
};

// The functions of derivatives.hpp for a robust block. With the derivatives ρ′ and ρ″ at s, α = 1 −
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
