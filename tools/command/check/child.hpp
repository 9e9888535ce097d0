// Runs work in child processes, for checks that need a fresh process.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

namespace topograd::command {

/// Runs `work` in a copy of this process and returns its result. Rethrows its error; throws
/// Error{Internal} that begins with `check` if the process ended otherwise or was silent for five
/// minutes.
nlohmann::ordered_json in_a_process(const std::string& check,
                                    const std::function<nlohmann::ordered_json()>& work);

}  // namespace topograd::command
