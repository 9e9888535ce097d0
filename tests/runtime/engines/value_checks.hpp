// Several values from one sweep against the same values one by one, and against the scalar
// evaluator.
#pragma once

#include "engine_models.hpp"

#include "../../../runtime/engine/engine.hpp"

namespace topograd::test {

/// Checks an engine at m.x.
///
///   tolerance   of norms, relative: against the scalar evaluator, and of costs among each other
///   same_bits   gradient and rows are those of gradient() and residuals(), bit for bit
void check_values(runtime::Engine& engine, const OwnedModel& m, double tolerance, bool same_bits);

}  // namespace topograd::test
