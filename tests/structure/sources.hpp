// The project's own source files, as text, for the tests that read the tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../support/manual.hpp"

namespace topograd::test {

/// One file of the tree. `path` is relative to the root with forward slashes, e.g.
/// "ir/program.hpp".
struct SourceFile {
  std::string path;
  std::string text;
};

/// All C++ files (.hpp, .cpp, .def) below the project's folders, sorted by path.
std::vector<SourceFile> cpp_sources();

/// The text without the contents of raw string literals, which hold other languages.
std::string without_raw_strings(std::string_view text);

}  // namespace topograd::test
