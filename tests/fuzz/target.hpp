// What the fuzzer calls: one function for each form of text or file that the project reads.
#pragma once

#include "../../ir/error.hpp"

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>

namespace topograd::fuzz {

/// Reads one input as its target does and checks what must hold of the result. Whatever is thrown
/// is a finding: errors that malformed input is entitled to are taken inside.
using Run = void (*)(std::string_view input);

struct Target {
  const char* name;  ///< also that of its folder in corpus/
  Run run;
};

/// All of them, in the order of CMakeLists.txt.
std::span<const Target> targets();

/// True if `read` returned; false if it threw an Error with one of these codes. What else it throws
/// goes on.
bool reads(const std::function<void()>& read, std::initializer_list<ErrorCode> entitled);

/// Throws std::logic_error with `what` unless `holds`.
void require(bool holds, const char* what);

}  // namespace topograd::fuzz
