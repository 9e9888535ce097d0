// The module for web pages: files of web/ that are compiled into the library.
#pragma once

#include <span>
#include <string_view>

namespace topograd::detail {

struct WebFile {
  std::string_view name;
  bool of_page = false;  ///< of the page, not of the module
  std::string_view text;
};
std::span<const WebFile> web_files();

}  // namespace topograd::detail
