// The subcommand `check compile`.
#pragma once

#include "../arguments/arguments.hpp"

namespace topograd::command {

/// Adds itself to `check`.
void add_check_compile(Command check);

}  // namespace topograd::command
