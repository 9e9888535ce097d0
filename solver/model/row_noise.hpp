// What rounding of the unknowns may change in the cost, row by row.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "model.hpp"

namespace topograd {

/// Sum over the rows of ε |r_k| a_k + ½ (ε a_k)² with a_k = √Σ_i (J_ki x_i)² at the engine's
/// point: what rounding of x may change in the squares. A row whose terms cancel, as that of a
/// point in the centre of a camera, counts by its own residual, not by those of all other rows.
///
///   unit  ε: the relative rounding unit
///
/// Infinite if there are residuals on the host, whose Jacobians the engine does not have.
///
/// Cost: one Jacobian, read on the host.
double row_noise(runtime::Engine& engine, const ProblemModel& model, double unit);

}  // namespace topograd
