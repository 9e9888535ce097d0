// Fuzz targets: one function for each form of text or file that the project reads.
#pragma once

#include "../../ir/error.hpp"

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>

namespace topograd::fuzz {

/// Reads one input and checks invariants of the result. Everything thrown is a finding: targets
/// catch the errors that malformed input may cause.
using Run = void (*)(std::string_view input);

struct Target {
  const char* name;  ///< also the name of its folder in corpus/
  Run run;
};

/// All targets, in the order of CMakeLists.txt.
std::span<const Target> targets();

/// True if `read` returned; false if it threw an Error with one of these codes. Other exceptions
/// propagate.
bool reads(const std::function<void()>& read, std::initializer_list<ErrorCode> entitled);

/// Throws std::logic_error with `what` unless `holds`.
void require(bool holds, const char* what);

}  // namespace topograd::fuzz
