// The subcommands of `check`: each function adds one.
#pragma once

#include "../arguments/arguments.hpp"

namespace topograd::command {

void add_check_compile(Command check);
void add_check_faults(Command check);
void add_check_soak(Command check);
void add_check_repeat(Command check);
void add_check_start(Command check);
void add_check_view(Command check);

}  // namespace topograd::command
