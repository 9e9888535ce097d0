// Paths of the source tree and of built programs, also after they were moved.
#include "paths.hpp"

#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace topograd::test {
namespace {

std::filesystem::path from_environment(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

}  // namespace

std::filesystem::path source_dir() {
  return from_environment("TOPOGRAD_SOURCE_DIR", TOPOGRAD_SOURCE_DIR);
}

std::filesystem::path program_dir() {
  return from_environment("TOPOGRAD_PROGRAM_DIR", TOPOGRAD_PROGRAM_DIR);
}

TemporaryDir::TemporaryDir() {
  std::string name = (std::filesystem::temp_directory_path() / "topograd-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw std::filesystem::filesystem_error("mkdtemp", name,
                                            std::error_code(errno, std::generic_category()));
  }
  path_ = name;
}

TemporaryDir::~TemporaryDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace topograd::test
