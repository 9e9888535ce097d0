// The pages of the manual, their blocks, and their tables that are made from the code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace topograd::test {

/// One page of the manual; the path is relative to the root of the source tree.
struct Page {
  std::string path, text;
};

/// README.md and the other pages at the root, and the pages of docs/, sorted by path.
std::vector<Page> manual_pages();

/// One fenced block of a page.
struct Block {
  std::string language, text;
  std::string origin;  ///< the comment `<!-- ... -->` in the line before; empty: none
};

std::vector<Block> blocks_of(std::string_view page);

/// The lines of a text, without line ends.
std::vector<std::string_view> lines_of(std::string_view text);

/// Fails the running test if the table below `<!-- table of NAME -->` in a page differs from
/// `table`, which ends with a line feed. With TOPOGRAD_UPDATE_GOLDEN=1 the page is written instead.
///
///   page  from the root of the source tree, e.g. "docs/errors.md"
void expect_table(const std::string& page, const std::string& name, const std::string& table);

}  // namespace topograd::test
