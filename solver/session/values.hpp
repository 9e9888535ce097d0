// Several values of a model at a point, on the engine of a session that serves them.
#pragma once

#include "../../runtime/model/model.hpp"
#include "../evaluator.hpp"
#include "engines.hpp"

namespace topograd {

/// Derivatives by fixed scalars become zero: engines may give them as if these were free.
void mask_fixed(const runtime::Model& model, Eigen::VectorXd& gradient);

/// Values on an engine at its point. Throws what the engine throws.
Evaluation values_of(runtime::Engine& engine, const runtime::Model& model, const Wanted& wanted);

/// Values at x, on the engine that serves such an evaluation.
///
///   follows_branches  the engine may change the model: its branches are brought to x first
///   x                 model.scalars numbers
Evaluation values_at(Engines& engines, bool follows_branches, const runtime::Model& model,
                     Numbers x, const Wanted& wanted);

}  // namespace topograd
