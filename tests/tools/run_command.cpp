// Running of programs with their output in files.
#include "run_command.hpp"

#include "../support/paths.hpp"

#include <sys/wait.h>
#include <cstdlib>

namespace topograd::test {

CommandResult run_program(const std::string& program, const std::string& arguments,
                          const std::string& environment) {
  const TemporaryDir folder;
  const std::string out = folder.path() / "out", err = folder.path() / "err";
  const std::string line = environment + " '" + (program_dir() / program).string() + "' " +
                           arguments + " >'" + out + "' 2>'" + err + "'";
  const int status = std::system(line.c_str());
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = read_file(out),
          .err = read_file(err)};
}

nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_file(path));
}

std::string spot() { return (source_dir() / "samples/data/spot.obj").string(); }

}  // namespace topograd::test
