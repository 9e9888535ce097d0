// The form of a source file: its first line, its guard, no marks of unfinished work.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace topograd::test {

/// Violations of the form of one C++ file, a sentence each; empty if there are none.
std::vector<std::string> form_violations(std::string_view path, std::string_view text);

}  // namespace topograd::test
