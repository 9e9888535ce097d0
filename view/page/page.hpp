// The page of a view: files that are compiled into the program.
#pragma once

#include <string_view>

namespace topograd::view {

struct PageFile {
  std::string_view path;  ///< "" is the page itself
  std::string_view type;  ///< media type
  std::string_view text;
};
/// Null if there is no such file.
const PageFile* find_page_file(std::string_view path);

}  // namespace topograd::view
