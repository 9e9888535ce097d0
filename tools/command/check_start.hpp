// The subcommand `check start`.
#pragma once

#include <CLI/CLI.hpp>

namespace topograd::command {

/// Adds itself to `check`.
void add_check_start(CLI::App& check);

}  // namespace topograd::command
