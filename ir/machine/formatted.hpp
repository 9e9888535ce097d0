// Numbers as text, whatever locale the program has set.
#pragma once

#include <cstdarg>
#include <string>

namespace topograd::platform {

/// snprintf() into a string, with the decimal point of the locale "C" whatever locale the program
/// has set: for texts that are read back, and reports that look the same everywhere.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);
/// The same for the arguments of another such function.
std::string formatted_list(const char* format, std::va_list arguments);

}  // namespace topograd::platform
