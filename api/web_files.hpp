// The module for web pages: files of web/ that are compiled into the library.
#pragma once

#include <span>
#include <string_view>

namespace topograd::detail {

struct WebFile {
  std::string_view name;
  std::string_view text;
};
std::span<const WebFile> web_files();

}  // namespace topograd::detail
