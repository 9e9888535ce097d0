// The version of the library.
#pragma once

#include <string_view>

namespace topograd {

/// "major.minor.patch" of the linked library.
std::string_view version();

}  // namespace topograd
