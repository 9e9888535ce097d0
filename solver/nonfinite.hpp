// Finding the residual, the op and the operands behind a NaN or an infinity.
#pragma once

#include <topograd/runtime/engine.hpp>
#include <topograd/solver/model.hpp>

#include <span>
#include <string>

namespace topograd {

/// Says which residual (label, instance, topology), or which derivative of it, is not finite at the
/// engine's point, and the first op that made it so with its operands, as the scalar evaluator sees
/// it.
///
/// Reads residuals, and Jacobians if the residuals are finite. Cost: one evaluation, one read-back.
std::string describe_nonfinite(runtime::Engine& engine, const ProblemModel& model);

/// Throws Error{NonFinite} that names array, block and coordinate of the first value that is not
/// finite.
///
///   call  name for the message, e.g. "solve"
///   x     model.scalars values
void check_start(const char* call, const runtime::Model& model, std::span<const double> x);

}  // namespace topograd
