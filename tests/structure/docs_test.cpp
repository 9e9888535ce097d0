// Documents that must agree with the code: the table of error codes, the snippets cut from samples.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <topograd/ir/error.hpp>

#include "structure/sources.hpp"
#include "support/paths.hpp"

namespace topograd::test {
namespace {

/// The rows of the manual's table, made from the enum's lines `Name,  ///< meaning` and from
/// name().
std::string error_table(std::string_view header) {
  std::string table = "| code | name | meaning |\n|---|---|---|\n";
  int code = 0;
  const std::size_t begin = header.find("enum class ErrorCode {");
  const std::string_view body = header.substr(begin, header.find("};", begin) - begin);
  for (std::string_view line : lines_of(body)) {
    constexpr std::string_view kMeaning = "///< ";
    const std::size_t comma = line.find(',');
    const std::size_t meaning = line.find(kMeaning);
    if (comma == line.npos || meaning == line.npos) continue;
    const std::size_t start = line.find_first_not_of(' ');
    table += "| `" + std::string(line.substr(start, comma - start)) + "` | `" +
             name(static_cast<ErrorCode>(code++)) + "` | " +
             std::string(line.substr(meaning + kMeaning.size())) + " |\n";
  }
  return table;
}

TEST(Documents, ErrorTableIsTheEnum) {
  const std::string expected = error_table(read_file(source_dir() / "ir/error.hpp"));
  const std::filesystem::path page = source_dir() / "docs/errors.md";
  const std::string text = read_file(page);
  const std::size_t begin = text.find("| code |");
  ASSERT_NE(begin, text.npos);
  const std::size_t end = std::min(text.find("\n\n", begin), text.size() - 1) + 1;
  if (std::getenv("TOPOGRAD_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(page) << text.substr(0, begin) + expected + text.substr(end);
  }
  EXPECT_EQ(text.substr(begin, end - begin), expected)
      << "TOPOGRAD_UPDATE_GOLDEN=1 writes the table anew";
}

/// What is wrong with the C++ snippets of one page: each is preceded by the name of the sample it
/// is cut from, <!-- samples/NAME.cpp -->, and occurs there word for word.
template <class ReadSample>
std::vector<std::string> snippet_violations(std::string_view text, const ReadSample& read_sample) {
  std::vector<std::string> found;
  constexpr std::string_view kFence = "```cpp\n", kOpen = "<!-- samples/", kClose = " -->\n";
  for (std::size_t at = text.find(kFence); at != text.npos; at = text.find(kFence, at + 1)) {
    const std::size_t code = at + kFence.size();
    const std::string_view snippet = text.substr(code, text.find("```", code) - code);
    const std::size_t open = text.substr(0, at).rfind(kOpen);
    const std::size_t close = open == text.npos ? text.npos : text.find(kClose, open);
    if (close == text.npos || close + kClose.size() != at) {
      found.push_back("no sample is named before:\n" + std::string(snippet));
      continue;
    }
    const std::size_t path = open + std::string_view("<!-- ").size();
    const std::string sample(text.substr(path, close - path));
    const std::optional<std::string> source = read_sample(sample);
    if (!source || source->find(snippet) == std::string::npos) {
      found.push_back("not in " + sample + ":\n" + std::string(snippet));
    }
  }
  return found;
}

TEST(Documents, SnippetsAreCutFromSamples) {
  const auto read_sample = [](const std::string& path) -> std::optional<std::string> {
    const std::filesystem::path file = source_dir() / path;
    if (!std::filesystem::exists(file)) return std::nullopt;
    return read_file(file);
  };
  for (const SourceFile& page : documents()) {
    for (const std::string& violation : snippet_violations(page.text, read_sample)) {
      ADD_FAILURE() << page.path << ": " << violation;
    }
  }
}

TEST(Documents, SnippetCheckCanFail) {
  const auto read_sample = [](const std::string& path) -> std::optional<std::string> {
    if (path == "samples/a.cpp") return "int a = 1;\nint b = 2;\n";
    return std::nullopt;
  };
  const std::string marker = "<!-- samples/a.cpp -->\n";
  EXPECT_TRUE(snippet_violations(marker + "```cpp\nint b = 2;\n```\n", read_sample).empty());
  EXPECT_EQ(snippet_violations(marker + "```cpp\nint b = 3;\n```\n", read_sample).size(), 1u);
  EXPECT_EQ(snippet_violations("```cpp\nint b = 2;\n```\n", read_sample).size(), 1u);
  EXPECT_EQ(snippet_violations(marker + "text\n```cpp\nint b = 2;\n```\n", read_sample).size(), 1u);
  EXPECT_EQ(snippet_violations("<!-- samples/none.cpp -->\n```cpp\n;\n```\n", read_sample).size(),
            1u);
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
  for (const SourceFile& page : documents()) {
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
