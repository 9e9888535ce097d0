// The residual whose squares penalise a constraint: the augmented Lagrangian as a sum of squares.
#pragma once

#include "../../ir/program.hpp"
#include "../block_kind.hpp"

namespace topograd::detail {

/// r_k = w (s_k − c_k) for an equality c = 0, w max(0, s_k − c_k) for an inequality c >= 0.
///
/// With w = √μ and s = λ / μ, half its square is −λ c + ½ μ c² + ½ λ² / μ: the term of the
/// augmented Lagrangian (for inequalities Powell, Hestenes and Rockafellar's), up to a constant. w
/// is a uniform after those of `plain`, s_k are numbers after its data. A NaN of c stays one.
///
/// Source: Nocedal & Wright, Numerical Optimization, 2nd ed., eq. 17.36 and 17.64.
ir::Program penalty_program(const ir::Program& plain, BlockKind kind);

/// The energy −μ Σ log (c_k + s_k) of an inequality c >= 0: NaN or infinite unless all arguments
/// are positive. With μ = 0 it is 0 everywhere.
///
/// μ is the uniform of penalty_program()'s w, and s_k are its shifts: both serve one batch.
ir::Program barrier_program(const ir::Program& plain);

}  // namespace topograd::detail
