// Search for the residual, op and operands that produced a NaN or an infinity.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "model.hpp"

#include <span>
#include <string>

namespace topograd {

/// Names the residual (label, instance, topology), or its derivative, that is not finite at the
/// engine's point, and the first op that made it so with its operands. Operands are values of the
/// kernel's debug variant, run on the engine's device at its point.
///
/// Reads residuals and, if these are finite, Jacobians and energies. Cost: an evaluation and a
/// readback of each, and one shader.
std::string describe_nonfinite(runtime::Engine& engine, const ProblemModel& model);

/// The same for residuals at the engine's last trial point; empty if the engine does not give the
/// point or every residual is finite there. Cost: an evaluation.
std::string describe_nonfinite_trial(runtime::Engine& engine, const ProblemModel& model);

/// A number for a message, with all of its digits.
std::string number_text(double value);

/// Throws Error{NonFinite} that names array, block and coordinate of the first value that is not
/// finite.
///
///   call  name for the message, e.g. "solve"
///   x     of the problem, parameter_count() values
void check_start(const char* call, const Problem& problem, std::span<const double> x);

}  // namespace topograd
