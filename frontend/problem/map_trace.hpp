// Reads of a map's callable while it is traced: columns instead of numbers.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

namespace topograd::detail {

/// The address of a symbolic leaf: entry base + (indices[column] + shift) * width of x or of the
/// problem's data; if direct, the element's own number `column`.
struct AddressForm {
  bool direct = false;
  std::uint32_t column = 0;
  std::uint32_t base = 0;
  std::uint32_t width = 1;
  std::uint32_t blocks = 0;  ///< size of the array; indices[column] + shift must be less
  std::int64_t shift = 0;
  bool data = false;  ///< a data array, for messages

  friend bool operator==(const AddressForm&, const AddressForm&) = default;
  friend auto operator<=>(const AddressForm&, const AddressForm&) = default;

  /// The block for an index of the column; out of range if negative or >= blocks.
  std::int64_t block(std::uint32_t index) const { return index + shift; }
  std::uint32_t entry(std::uint32_t index) const {
    return base + static_cast<std::uint32_t>(block(index)) * width;
  }
};

/// One trace of a map's callable: the shape of its elements and the reads found so far.
struct MapTrace {
  std::uint32_t problem = 0;  ///< serial
  std::uint32_t serial = 0;
  int valence = 0;
  int data_count = 0;
  std::vector<AddressForm> forms;                      ///< by the number that a symbolic leaf holds
  std::map<AddressForm, std::uint32_t> first_of = {};  ///< number of the first equal form

  /// Number of the form, which is added if it is new: all reads of it share one leaf.
  std::uint32_t shared(const AddressForm& form);
  /// Number of the form, which is always added: each read is a leaf of its own.
  std::uint32_t added(const AddressForm& form);
};

/// A serial that no other problem or map of this process has.
std::uint32_t next_serial();

}  // namespace topograd::detail
