// Names of parameter and data arrays, blocks and scalars, as messages show them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace topograd {

/// An array of unknowns, as messages name it.
struct ArrayName {
  std::string_view name;   ///< empty if none was given
  std::size_t number = 0;  ///< position among the problem's arrays
  std::uint64_t blocks = 1;
  std::uint32_t width = 1;
};

/// Parameter "tau" for the only block of an array; parameter "points", block 3 for one of several;
/// parameter array 0, block 3 for an array without a name.
std::string block_text(const ArrayName& array, std::uint64_t block);
/// The same with ", coordinate 1" if a block has several or the array has no name.
///
///   scalar  index in the array: block · width + coordinate
std::string scalar_text(const ArrayName& array, std::uint64_t scalar);

/// Finds the array that contains scalar `scalar` of x, and the index of the scalar in it.
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
