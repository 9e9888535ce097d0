// The residual whose squares penalise a constraint: the augmented Lagrangian as a sum of squares.
#pragma once

#include "../../ir/program.hpp"
#include "../block_kind.hpp"

#include <cstdint>

namespace topograd::detail {

/// r_k = w (s_k − d_k c_k) for an equality c = 0, w max(0, s_k − d_k c_k) for an inequality c >= 0.
///
/// With w = √μ and s = λ / (μ d), half its square is −λ c + ½ μ d² c² + ½ s² μ: the term of the
/// augmented Lagrangian (for inequalities Powell, Hestenes and Rockafellar's), up to a constant. w
/// is a uniform after those of `plain`; the s_k of all rows, then their d_k, are numbers after its
/// data. A NaN of c stays one.
///
/// Source: Nocedal & Wright, Numerical Optimization, 2nd ed., eq. 17.36 and 17.64.
ir::Program penalty_program(const ir::Program& plain, BlockKind kind);

/// A hidden number of a new row: shifts are 0, and scales are 1.
constexpr double hidden_number(std::uint32_t column, std::uint32_t hidden) {
  return 2 * column < hidden ? 0 : 1;
}

/// The energy −μ Σ log (c_k + s_k) of an inequality c >= 0: NaN or infinite unless all arguments
/// are positive. With μ = 0 it is 0 everywhere.
///
/// μ is the uniform of penalty_program()'s w, and s_k are its shifts: both serve one batch. The
/// logarithm needs no scale, so d_k are not read.
ir::Program barrier_program(const ir::Program& plain);

}  // namespace topograd::detail
