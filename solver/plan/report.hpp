// Sentences of the report, from a plan and from what engines did.
#pragma once

#include "../../runtime/engine/damped_steps.hpp"
#include "decide.hpp"

#include <string>

namespace topograd {

/// One line: why it runs there.
std::string backend_text(const BackendChoice& choice);
/// Likewise, why steps are solved for like this.
std::string linear_text(const Plan& plan);
/// Likewise, the preconditioner in use: the plan's reason where it replaced the one asked for, else
/// the engine's.
std::string preconditioner_text(const Plan& plan, const runtime::PreconditionerUse& use);
std::string text(const runtime::Why<runtime::PreconditionerReason>& why);
/// Likewise, how JᵀJ is multiplied by, and what stands against a matrix.
std::string text(const runtime::Why<runtime::MatrixReason>& why);
/// "bounds, manifolds"; empty for none.
std::string text(const HostNeeds& needs);
/// Likewise, where the factor of cholesky is made.
std::string factor_text(const Plan& plan);
/// Why it is not made on a device.
std::string lack_of_device_factor(const Plan& plan);
/// The feature that a device lacks if it cannot run in f64.
std::string lack_of_float64(const BackendChoice& choice);

}  // namespace topograd
