// The module for web pages: files of web/ that are compiled into the library.
#pragma once

#include <span>
#include <string_view>

namespace topograd::detail {

/// Exports that have a file.
enum class WebPart { module, page, f32 };

struct WebFile {
  std::string_view name;
  WebPart part = WebPart::module;
  std::string_view text;
};
/// Empty in a build without TypeScript's compiler.
std::span<const WebFile> web_files();

}  // namespace topograd::detail
