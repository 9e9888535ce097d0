// Robust losses as they are written on the command line.
#pragma once

#include "../../../frontend/loss.hpp"

#include <string>

namespace topograd::command {

/// "huber:1", "soft_l1:A", "cauchy:A", "arctan:A", "tukey:A" or "tolerant:A,B"; the trivial loss
/// for an empty text or "trivial". Throws Error{InvalidArgument} for anything else.
Loss parse_loss(const std::string& text);

}  // namespace topograd::command
