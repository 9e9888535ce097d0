// Reading, comparing and rewriting the pages of the manual.
#include "manual.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "paths.hpp"

namespace topograd::test {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

std::vector<Page> manual_pages() {
  std::vector<Page> pages;
  const auto add = [&](const std::filesystem::path& path) {
    pages.push_back({path.lexically_relative(source_dir()).generic_string(), read_file(path)});
  };
  for (const auto& entry : std::filesystem::directory_iterator(source_dir()))
    if (entry.is_regular_file() && entry.path().extension() == ".md") add(entry.path());
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir() / "docs"))
    if (entry.is_regular_file() && entry.path().extension() == ".md") add(entry.path());
  std::ranges::sort(pages, {}, &Page::path);
  return pages;
}

std::vector<Block> blocks_of(std::string_view page) {
  constexpr std::string_view kFence = "```", kOpen = "<!-- ", kClose = " -->";
  std::vector<Block> blocks;
  bool inside = false;
  std::string_view before;
  for (const std::string_view line : lines_of(page)) {
    if (line.starts_with(kFence) && !inside) {
      Block block{.language = std::string(line.substr(kFence.size())), .text = {}, .origin = {}};
      if (before.starts_with(kOpen) && before.ends_with(kClose)) {
        block.origin = before.substr(kOpen.size(), before.size() - kOpen.size() - kClose.size());
      }
      blocks.push_back(std::move(block));
      inside = true;
    } else if (line.starts_with(kFence)) {
      inside = false;
    } else if (inside) {
      blocks.back().text.append(line).append("\n");
    }
    before = line;
  }
  return blocks;
}

void expect_table(const std::string& page, const std::string& name, const std::string& table) {
  const std::filesystem::path path = source_dir() / page;
  const std::string text = read_file(path), marker = "<!-- table of " + name + " -->\n";
  const std::size_t at = text.find(marker);
  ASSERT_NE(at, text.npos) << page << ": no table of " << name;
  const std::size_t begin = at + marker.size();
  const std::size_t end =
      text[begin] == '\n' ? begin : std::min(text.find("\n\n", begin), text.size() - 1) + 1;
  if (std::getenv("TOPOGRAD_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text.substr(0, begin) + table + text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(begin, end - begin), table)
      << page << ": TOPOGRAD_UPDATE_GOLDEN=1 writes the table anew";
}

}  // namespace topograd::test
