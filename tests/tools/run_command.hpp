// Runs built programs as their users do.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace topograd::test {

/// Result of a program.
struct CommandResult {
  int status = -1;
  std::string out, err;

  /// True if standard error is empty, except for the line about a limit.
  bool is_silent() const {
    return err.empty() || (err.starts_with("topograd: warning: NO_CONVERGENCE: ") &&
                           err.find('\n') + 1 == err.size());
  }
};

/// Runs a program of program_dir() through the shell; `environment` is its prefix ("NAME=value
/// ...").
CommandResult run_program(const std::string& program, const std::string& arguments,
                          const std::string& environment = "");
inline CommandResult topograd(const std::string& arguments, const std::string& environment = "") {
  return run_program("topograd", arguments, environment);
}

nlohmann::json read_json(const std::filesystem::path& path);

/// The mesh that comes with the samples.
std::string spot();

}  // namespace topograd::test
