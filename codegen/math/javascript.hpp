// The function library in JavaScript.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace topograd::codegen::math {

/// The name that JavaScript calls: "tg_exp_f64", or "Math.floor" for an exact built-in.
///
/// Throws Error{InvalidArgument} for an unknown function.
std::string javascript_spelling(std::string_view function);

/// The f64 functions of library.hpp in JavaScript, with all that they need, each once, before its
/// users; also "fma".
///
/// They are the snippets of GLSL in another spelling, so they have the same bits in every browser,
/// which `Math.sin` and its like have not. What snippets do to words of 64-bit floats is written
/// with a typed array. Throws Error{InvalidArgument} for an unknown function.
std::string javascript_library(std::span<const std::string_view> functions);

}  // namespace topograd::codegen::math
