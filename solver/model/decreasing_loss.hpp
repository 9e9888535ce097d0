// Detection of decreasing losses: least squares takes the square root of ρ′.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "model.hpp"

#include <optional>
#include <string>

namespace topograd {

/// Names the residual block whose loss has a negative slope at the engine's point: label, instance,
/// loss and slope; nothing if there is none. Runs on the interpreter in double for every engine.
///
/// Cost: reads the point and evaluates the blocks with custom, host or composed losses, if there
/// are any; built-in ones never decrease.
std::optional<std::string> describe_decreasing_loss(runtime::Engine& engine,
                                                    const ProblemModel& model);

/// "the loss "minus" of residual "a" #0 has slope -1 at a squared norm of 4; expected a slope >=
/// 0".
///
///   block  name of the block
///   s      its squared norm
///   slope  ρ′(s)
std::string decreasing_loss_text(const Loss& loss, const std::string& block, double s,
                                 double slope);

}  // namespace topograd
