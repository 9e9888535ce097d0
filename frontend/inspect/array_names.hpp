// How messages call arrays of unknowns and of data, their blocks and their scalars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace topograd {

/// An array of unknowns, as messages call it.
struct ArrayName {
  std::string_view name;   ///< empty if none was given
  std::size_t number = 0;  ///< among the problem's arrays
  std::uint64_t blocks = 1;
  std::uint32_t width = 1;
};

/// parameter "tau" for the only block of an array, parameter "points", block 3 for one of several,
/// parameter array 0, block 3 where no name was given.
std::string block_text(const ArrayName& array, std::uint64_t block);
/// The same with ", coordinate 1" where a block has several, or no name was given.
///
///   scalar  of the array: block · width + coordinate
std::string scalar_text(const ArrayName& array, std::uint64_t scalar);

/// The array that has scalar `scalar` of x, and the scalar's number within it.
///
///   arrays  cover x without gaps, ascending by offset
template <class Array>
std::string scalar_text(std::span<const Array> arrays, std::uint64_t scalar) {
  for (std::size_t a = arrays.size(); a-- > 0;) {
    const Array& array = arrays[a];
    if (scalar < array.offset) continue;
    return scalar_text(ArrayName{array.name, a, array.blocks, array.width}, scalar - array.offset);
  }
  return "scalar " + std::to_string(scalar);
}

}  // namespace topograd
