// The subcommands `check faults` and `check soak`.
#pragma once

#include <CLI/CLI.hpp>

namespace topograd::command {

/// Each adds itself to `check`.
void add_check_faults(CLI::App& check);
void add_check_soak(CLI::App& check);

}  // namespace topograd::command
