// Paths of the source tree and of built programs, also after they were moved.
#pragma once

#include <filesystem>
#include <string>

namespace topograd::test {

/// Root of the source tree: golden files, samples/data, docs.
///
/// The environment variable TOPOGRAD_SOURCE_DIR overrides the path known at compile time: test
/// binaries are packed and run on other machines. Tests must not find the tree in another way.
std::filesystem::path source_dir();

/// Folder of the built programs (`topograd` and the samples); TOPOGRAD_PROGRAM_DIR overrides it.
std::filesystem::path program_dir();

/// A new empty folder for one test's files, removed with its contents at the end of its life.
class TemporaryDir {
 public:
  /// Throws std::filesystem::filesystem_error if the system's temporary folder cannot be written.
  TemporaryDir();
  ~TemporaryDir();
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The whole file as bytes. Throws std::runtime_error with the path if it cannot be read.
std::string read_file(const std::filesystem::path& path);

}  // namespace topograd::test
