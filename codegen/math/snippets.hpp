// The table of GLSL snippets that embed.cmake generates from the files in this folder.
#pragma once

#include <span>
#include <string_view>
#include "../kernel.hpp"

namespace topograd::codegen::math {

/// A function, or a few constants that belong together.
struct Snippet {
  std::string_view name;
  Precision precision;
  std::string_view needs;  ///< names of other snippets of the same precision, separated by spaces
  std::string_view text;
};

std::span<const Snippet> snippets();

}  // namespace topograd::codegen::math
