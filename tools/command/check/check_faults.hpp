// The subcommands `check faults` and `check soak`.
#pragma once

#include "../arguments/arguments.hpp"

namespace topograd::command {

/// Add themselves to `check`.
void add_check_faults(Command check);
void add_check_soak(Command check);

}  // namespace topograd::command
