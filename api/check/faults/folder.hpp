// Internal: a folder for the files of a self-test.
#pragma once

#include <filesystem>
#include <string>

namespace topograd::check {

/// A private folder for temporary files that goes away with it.
class Folder {
 public:
  /// `check` names it. Throws Error{File}.
  explicit Folder(const std::string& check);
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace topograd::check
