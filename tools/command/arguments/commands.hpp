// The subcommands: each function adds one to the command line.
#pragma once

#include <functional>
#include <string>

#include "arguments.hpp"

namespace topograd::command {

void add_info(Command app);
void add_doctor(Command app);
void add_demo(Command app);
void add_solve(Command app);
void add_dump(Command app);
void add_export(Command app);
void add_grad(Command app);
void add_bench(Command app);
void add_check(Command app);
void add_view(Command app);

/// All commands and options, as data.
CommandText command_text();

/// What `topograd` without arguments prints: six lines that say what to try, complete commands with
/// comments, none of which needs a file.
std::string first_words();

/// Runs the command. Exit status: 0; 1 if a bound was exceeded (doctor: a requirement is missing;
/// solve --require-convergence: no convergence); 2 for an error, with one line on standard error;
/// 130 or 143 after SIGINT or SIGTERM.
///
///   fail  tells an error and returns the exit status; empty: one line on standard error
int run(int argc, const char* const* argv,
        const std::function<int(const std::string& reason)>& fail = {});

/// Thrown by a subcommand after its output if a bound was exceeded.
struct BoundBroken {};

/// Thrown by a subcommand after its output if a signal ended it.
struct Interrupted {
  int signal = 0;
};

void add_model(Command app);

/// Adds itself to the command line.
void add_warm_up(Command app);

}  // namespace topograd::command
