// The subcommands; each adds itself to the command line and runs when it was named.
#pragma once

#include "arguments.hpp"

namespace topograd::command {

void add_info(Command app);
void add_doctor(Command app);
void add_solve(Command app);
void add_dump(Command app);
void add_grad(Command app);
void add_bench(Command app);
void add_check(Command app);

/// All commands and options, as data.
CommandText command_text();

/// Runs the command. Exit status: 0; 1 where a bound was broken (doctor: something needed is
/// missing; solve --require-convergence: no convergence); 2 for an error, with one line on standard
/// error; 130 or 143 where SIGINT or SIGTERM ended the work.
int run(int argc, const char* const* argv);

/// Thrown by a subcommand whose bound was broken, after its output.
struct BoundBroken {};

/// Thrown by a subcommand that a signal ended, after its output.
struct Interrupted {
  int signal = 0;
};

}  // namespace topograd::command
