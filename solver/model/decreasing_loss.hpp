// Losses that decrease where they are evaluated: least squares takes the square root of ρ′.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "model.hpp"

#include <optional>
#include <string>

namespace topograd {

/// Says which residual block's loss has a negative slope at the engine's point: label, instance,
/// loss and slope; nothing where none has. On the interpreter, in double, whatever the engine is.
///
/// Cost: reads the point and evaluates the blocks that have custom, host or composed losses, if
/// there are any; the built-in ones do not decrease and are not looked at.
std::optional<std::string> describe_decreasing_loss(runtime::Engine& engine,
                                                    const ProblemModel& model);

/// "the loss "minus" of residual "a" #0 has slope -1 at a squared norm of 4; expected a slope >=
/// 0".
///
///   block  what the block is called
///   s      its squared norm
///   slope  ρ′(s)
std::string decreasing_loss_text(const Loss& loss, const std::string& block, double s,
                                 double slope);

}  // namespace topograd
