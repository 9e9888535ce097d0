// topograd model: exports what the executor has learned, and merges it on other machines.
#pragma once

#include "arguments/arguments.hpp"

namespace topograd::command {

void add_model(Command app);

}  // namespace topograd::command
