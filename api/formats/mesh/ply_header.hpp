// Headers of PLY files.
#pragma once

#include "../word_reader.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd {

/// A type of numbers.
struct PlyType {
  enum class Kind : std::uint8_t { signed_whole, unsigned_whole, floating };
  Kind kind = Kind::floating;
  std::uint8_t bytes = 4;
};

struct PlyProperty {
  std::string name;
  PlyType type;
  std::optional<PlyType> count;  ///< of a list: the type of its length
};

struct PlyElement {
  std::string name;
  std::uint64_t count = 0;
  std::vector<PlyProperty> properties;
  std::size_t line = 0;

  /// Bytes of the shortest item in binary data, or in text: a digit and a space for each number.
  std::uint64_t least_bytes(bool text) const;
};

struct PlyHeader {
  enum class Encoding : std::uint8_t { text, little_endian, big_endian };
  Encoding encoding = Encoding::text;
  std::vector<PlyElement> elements;
};

/// Reads up to the end of the line "end_header". Throws Error{Parse} for what is not a header of
/// PLY 1.0, and an element or property that is there twice.
PlyHeader read_ply_header(WordReader& reader);

}  // namespace topograd
