// Internal: units of one or several elements, in which parts of tensors are copied.
#pragma once

#include "../../backend/type.hpp"

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace topograd::ops::detail {

/// Bytes of the largest unit that divides all of these numbers of elements: 16, 8 or 4; 2 if f16
/// elements do not fill words.
inline std::uint32_t unit_bytes(Type type, std::initializer_list<std::uint64_t> elements) {
  std::uint64_t all = 16;
  for (const std::uint64_t count : elements) all |= count * size_of(type);
  return 1u << std::countr_zero(all);
}
/// Its type in GLSL.
constexpr const char* unit_type(std::uint32_t unit) {
  return unit == 4 ? "uint" : unit == 8 ? "uvec2" : "uvec4";
}

}  // namespace topograd::ops::detail
