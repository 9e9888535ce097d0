// The version of the library.
#pragma once

#include <string_view>

namespace topograd {

/// "major.minor.patch" of the library that is linked.
std::string_view version();

}  // namespace topograd
