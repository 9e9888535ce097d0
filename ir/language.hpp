// Check of the C++ version, included by every public header.
#pragma once

#if __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#error "Topograd's headers need C++20: compile with -std=c++20"
// This file does not exist: compilation stops here instead of with an error for each later line.
#include <needs-std=c++20>
#endif
