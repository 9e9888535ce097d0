// The language level that every header needs.
#pragma once

#if __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#error "Topograd's headers need C++20: compile with -std=c++20"
// There is no such file: compilation ends here, before each line that follows is an error, too.
#include <needs-std=c++20>
#endif
