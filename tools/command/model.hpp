// topograd model: what the executor has learned, carried between machines.
#pragma once

#include <CLI/CLI.hpp>

namespace topograd::command {

void add_model(CLI::App& app);

}  // namespace topograd::command
