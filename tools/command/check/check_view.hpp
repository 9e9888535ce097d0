// The subcommand `check view`.
#pragma once

#include "../arguments/arguments.hpp"

namespace topograd::command {

/// Adds itself to `check`.
void add_check_view(Command check);

}  // namespace topograd::command
