// Writing of results.
#include "command/output.hpp"

#include <topograd/ir/error.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace topograd::command {

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file) throw Error(ErrorCode::File, path + ": cannot be written");
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // A folder opens too, and reads as nothing.
  if (!file || std::filesystem::is_directory(path) ||
      !(text << file.rdbuf() || text.str().empty())) {
    throw Error(ErrorCode::File, path + ": cannot be read");
  }
  return text.str();
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  if (!path.empty()) write_text(path, json.dump(2) + "\n");
}

}  // namespace topograd::command
