// Names of arrays, as messages show them, and the origin of the numbers that residuals read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../problem.hpp"

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

/// Tells which data columns of a batch read which entries of data arrays, and which uniforms users
/// have added. Losses and constraints have hidden numbers beside them, which nobody can name.
///
/// A view of the problem's state, which outlives it. Changes of the structure make it out of date.
class NumberSources {
 public:
  /// A number that was written into a residual, or a column of a map.
  static constexpr std::uint32_t kOwn = ~std::uint32_t{0};

  explicit NumberSources(const Problem& problem);

  /// The numbers of all data arrays, one array after the other, in the order of adding.
  std::span<const double> data() const;
  /// Positions in Problem::uniforms() of those that users have added, ascending.
  const std::vector<std::uint32_t>& uniforms() const { return uniforms_; }
  /// Position there of the weight of equalities, which solves leave equal to that of inequalities;
  /// kOwn if there are no constraints.
  std::uint32_t penalty_weight() const;

  /// Number of uniform and data columns at the end of a topology's batch that no user wrote.
  std::uint32_t hidden_uniforms(std::size_t topology) const;
  std::uint32_t hidden_data(std::size_t topology) const;
  /// Entry in data() that a column of an instance reads, or kOwn.
  std::uint32_t source(std::size_t topology, std::size_t instance, std::uint32_t column) const;
  /// False if no instance of the topology reads data arrays.
  bool reads_arrays(std::size_t topology) const;

  /// Position in data() of an array's first number, and of a uniform in Problem::uniforms(). Throw
  /// Error{WrongProblem} for handles of another problem, or of none.
  std::uint32_t first_entry(const char* call, const Data& data) const;
  std::uint32_t index(const char* call, const Uniform& uniform) const;

 private:
  const Problem& problem_;
  std::vector<std::uint32_t> uniforms_;
};

}  // namespace topograd
