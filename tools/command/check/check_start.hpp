// The subcommand `check start`.
#pragma once

#include "../arguments/arguments.hpp"

namespace topograd::command {

/// Adds itself to `check`.
void add_check_start(Command check);

}  // namespace topograd::command
