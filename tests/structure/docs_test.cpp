// Documents that must agree with the code: code blocks are cut from tested files, links lead to
// files.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "../support/manual.hpp"
#include "../support/paths.hpp"

namespace topograd::test {
namespace {

/// The lines without leading spaces: a part of a file has less indentation than in it.
std::string unindented(std::string_view text) {
  std::string out;
  for (const std::string_view line : lines_of(text))
    out.append(line.substr(std::min(line.find_first_not_of(' '), line.size()))).append("\n");
  return out;
}

/// Violations in the fenced blocks of one page. Code (cpp, json, cmake, python) has the name of its
/// source file in the line before, <!-- samples/NAME.cpp -->, and occurs there word for word.
/// Commands are `sh`, which tests/tools/manual_commands_test.cpp reads; `text` is not code.
template <class ReadFile>
std::vector<std::string> block_violations(std::string_view page, const ReadFile& read) {
  std::vector<std::string> found;
  for (const Block& block : blocks_of(page)) {
    const bool code = block.language == "cpp" || block.language == "json" ||
                      block.language == "cmake" || block.language == "python" ||
                      block.language == "js";
    const bool other = block.language == "sh" || block.language == "text" ||
                       block.language.starts_with("{toctree}") ||
                       block.language.starts_with("{doxygen") || block.language == "{eval-rst}";
    if (other) continue;
    if (!code) {
      found.push_back("expected cpp, json, cmake, python, js, sh or text after ```, got \"" +
                      block.language + "\":\n" + block.text);
      continue;
    }
    const std::optional<std::string> file = read(block.origin);
    const bool cut = file && (block.language == "json"
                                  ? unindented(*file).find(unindented(block.text)) != file->npos
                                  : file->find(block.text) != file->npos);
    if (!cut) {
      found.push_back((file ? "not in " + block.origin : "no file is named before") + ":\n" +
                      block.text);
    }
  }
  return found;
}

/// Lines that are code by indentation alone: they have no language, and no test reads them.
std::vector<std::string> indented_blocks(std::string_view page) {
  std::vector<std::string> found;
  bool inside = false, list = false;
  std::string_view before;
  for (const std::string_view line : lines_of(page)) {
    if (line.starts_with("```")) inside = !inside;
    if (!line.empty() && line.front() != ' ')
      list = line.starts_with("- ") || (line.front() >= '0' && line.front() <= '9');
    if (!inside && !list && before.empty() && line.starts_with("    "))
      found.push_back(std::string(line));
    before = line;
  }
  return found;
}

TEST(Documents, CodeIsCutFromFilesThatTestsRun) {
  const auto read = [](const std::string& path) -> std::optional<std::string> {
    const bool tested = path.starts_with("samples/") || path.starts_with("tests/") ||
                        path.starts_with("python/samples/");
    if (!tested || !std::filesystem::exists(source_dir() / path)) return std::nullopt;
    return read_file(source_dir() / path);
  };
  for (const Page& page : manual_pages()) {
    for (const std::string& violation : block_violations(page.text, read))
      ADD_FAILURE() << page.path << ": " << violation;
    for (const std::string& line : indented_blocks(page.text))
      ADD_FAILURE() << page.path << ": a block by indentation alone, use ```: " << line;
  }
}

TEST(Documents, CheckOfBlocksCanFail) {
  const auto read = [](const std::string& path) -> std::optional<std::string> {
    if (path == "samples/a.cpp") return "int a = 1;\nint b = 2;\n";
    if (path == "samples/a.json") return "{\n  \"a\": [\n    1]\n}\n";
    return std::nullopt;
  };
  const struct {
    const char* page;
    std::size_t violations;
  } rows[] = {
      {"<!-- samples/a.cpp -->\n```cpp\nint b = 2;\n```\n", 0},
      {"<!-- samples/a.cpp -->\n```cpp\nint b = 3;\n```\n", 1},
      {"```cpp\nint b = 2;\n```\n", 1},
      {"<!-- samples/a.cpp -->\ntext\n```cpp\nint b = 2;\n```\n", 1},
      {"<!-- samples/none.cpp -->\n```cpp\n;\n```\n", 1},
      {"<!-- samples/a.json -->\n```json\n\"a\": [\n  1]\n```\n", 0},
      {"<!-- samples/a.json -->\n```json\n\"a\": [2]\n```\n", 1},
      {"```\nls\n```\n", 1},
      {"```python\nx = 1\n```\n", 1},
      {"```sh\nls\n```\n```text\nx\n```\n```{toctree}\n```\n", 0},
  };
  for (const auto& row : rows)
    EXPECT_EQ(block_violations(row.page, read).size(), row.violations) << row.page;
  EXPECT_EQ(indented_blocks("text\n\n    code\n").size(), 1u);
  EXPECT_TRUE(indented_blocks("- a\n\n    of a\n\n```sh\n\n    b\n```\n").empty());
}

/// The page without its fenced blocks, where "](" is code.
std::string without_fences(std::string_view text) {
  std::string kept;
  bool inside = false;
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with("```")) inside = !inside;
    if (!inside) kept.append(line).append("\n");
  }
  return kept;
}

/// Relative links of one page to files that do not exist. The site's build checks the anchors.
template <class Exists>
std::vector<std::string> dead_links(std::string_view page, const Exists& exists) {
  std::vector<std::string> found;
  const std::string text = without_fences(page);
  for (std::size_t at = text.find("]("); at != text.npos; at = text.find("](", at + 2)) {
    const std::size_t begin = at + 2, end = text.find_first_of(")#\n", begin);
    if (end == text.npos || text[end] == '\n' || end == begin) continue;
    const std::string target(text.substr(begin, end - begin));
    if (target.find("://") == target.npos && !exists(target)) found.push_back(target);
  }
  return found;
}

TEST(Documents, LinksLeadToFiles) {
  for (const Page& page : manual_pages()) {
    const std::filesystem::path folder = (source_dir() / page.path).parent_path();
    const auto exists = [&](const std::string& target) {
      return std::filesystem::exists(folder / target);
    };
    for (const std::string& target : dead_links(page.text, exists))
      ADD_FAILURE() << page.path << ": no file " << target;
  }
}

TEST(Documents, LinkCheckCanFail) {
  const auto exists = [](const std::string& target) { return target == "a.md"; };
  EXPECT_TRUE(dead_links("[a](a.md), [b](a.md#b), [c](#c), [d](https://d.org)", exists).empty());
  EXPECT_EQ(dead_links("[a](a.md) ![b](b.png)", exists), std::vector<std::string>{"b.png"});
  EXPECT_TRUE(dead_links("```cpp\n[](Value a) {}\n```\n", exists).empty());
}

}  // namespace
}  // namespace topograd::test
