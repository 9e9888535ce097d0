// The subcommand `warm-up`.
#pragma once

#include "arguments/arguments.hpp"

namespace topograd::command {

/// Adds itself to the command line.
void add_warm_up(Command app);

}  // namespace topograd::command
