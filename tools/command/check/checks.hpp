// The subcommands of `check`, one function each, and work in child processes for them.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "../arguments/arguments.hpp"

namespace topograd::command {

void add_check_compile(Command check);
void add_check_faults(Command check);
void add_check_soak(Command check);
void add_check_repeat(Command check);
void add_check_start(Command check);
void add_check_view(Command check);

/// Runs `work` in a copy of this process and returns its result. Rethrows its error; throws
/// Error{Internal} that begins with `check` if the process ended otherwise or was silent for so
/// many seconds.
nlohmann::ordered_json in_a_process(const std::string& check,
                                    const std::function<nlohmann::ordered_json()>& work,
                                    double seconds = 300);

}  // namespace topograd::command
