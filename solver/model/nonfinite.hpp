// Finding the residual, the op and the operands behind a NaN or an infinity.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "model.hpp"

#include <span>
#include <string>

namespace topograd {

/// Says which residual (label, instance, topology), or which derivative of it, is not finite at the
/// engine's point, and the first op that made it so with its operands: the values of the debug
/// variant of the kernel, run where the engine's kernels run, on the point as it is there.
///
/// Reads residuals, and Jacobians and energies if these are finite. Cost: an evaluation and a
/// read-back of each, and one shader.
std::string describe_nonfinite(runtime::Engine& engine, const ProblemModel& model);

/// Says which residual is not finite at the engine's last trial point, likewise; empty where the
/// engine does not tell the point or every residual is finite there. Cost: an evaluation.
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
