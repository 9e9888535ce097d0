// The project's own source files, as text, for the tests that read the tree.
#include "sources.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "../support/paths.hpp"

namespace topograd::test {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFolders = {"ir",     "autodiff", "frontend", "codegen", "runtime",
                                 "solver", "ops",      "api",      "view",    "distributed",
                                 "tools",  "samples",  "bench",    "python",  "tests"};

void append(std::vector<SourceFile>& files, const fs::path& path) {
  files.push_back({path.lexically_relative(source_dir()).generic_string(), read_file(path)});
}

void append_below(std::vector<SourceFile>& files, const fs::path& folder,
                  const std::vector<std::string>& extensions) {
  if (!fs::exists(folder)) return;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() &&
        std::ranges::count(extensions, entry.path().extension().string()) != 0) {
      append(files, entry.path());
    }
  }
}

std::vector<SourceFile> sorted(std::vector<SourceFile> files) {
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

}  // namespace

std::vector<SourceFile> cpp_sources() {
  std::vector<SourceFile> files;
  for (const char* folder : kFolders) {
    append_below(files, source_dir() / folder, {".hpp", ".cpp", ".def"});
  }
  return sorted(std::move(files));
}

std::string without_raw_strings(std::string_view text) {
  constexpr std::size_t kMaxDelimiter = 16;
  std::string kept;
  for (std::size_t open = text.find("R\""); open != text.npos; open = text.find("R\"")) {
    const std::size_t start = open + 2;
    const std::string_view delimiter = text.substr(start, text.find('(', start) - start);
    kept.append(text.substr(0, start));
    text.remove_prefix(start);
    if (delimiter.size() > kMaxDelimiter) continue;  // the end of an ordinary string
    const std::size_t end = text.find(")" + std::string(delimiter) + "\"");
    if (end == text.npos) return kept;
    text.remove_prefix(end);
  }
  return kept.append(text);
}

}  // namespace topograd::test
