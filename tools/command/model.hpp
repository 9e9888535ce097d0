// topograd model: what the executor has learned, carried between machines.
#pragma once

#include "arguments/arguments.hpp"

namespace topograd::command {

void add_model(Command app);

}  // namespace topograd::command
