// The subcommand `check repeat`.
#pragma once

#include "../arguments/arguments.hpp"

namespace topograd::command {

/// Adds itself to `check`.
void add_check_repeat(Command check);

}  // namespace topograd::command
