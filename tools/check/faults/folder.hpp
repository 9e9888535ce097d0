// Internal: a temporary folder for a self-test.
#pragma once

#include <filesystem>
#include <string>

namespace topograd::check {

/// A private folder for temporary files, removed by the destructor.
class Folder {
 public:
  /// `check` is part of the folder's name. Throws Error{File}.
  explicit Folder(const std::string& check);
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace topograd::check
