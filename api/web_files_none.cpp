// The module for web pages, in a build without TypeScript's compiler: no files.
#include "web_files.hpp"

namespace topograd::detail {

std::span<const WebFile> web_files() { return {}; }

}  // namespace topograd::detail
