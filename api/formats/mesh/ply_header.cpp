// Headers of PLY files.
#include "ply_header.hpp"

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace topograd {
namespace {

using Kind = PlyType::Kind;

constexpr std::pair<std::string_view, PlyType> kPlyTypes[] = {
    {"char", {Kind::signed_whole, 1}},     {"int8", {Kind::signed_whole, 1}},
    {"uchar", {Kind::unsigned_whole, 1}},  {"uint8", {Kind::unsigned_whole, 1}},
    {"short", {Kind::signed_whole, 2}},    {"int16", {Kind::signed_whole, 2}},
    {"ushort", {Kind::unsigned_whole, 2}}, {"uint16", {Kind::unsigned_whole, 2}},
    {"int", {Kind::signed_whole, 4}},      {"int32", {Kind::signed_whole, 4}},
    {"uint", {Kind::unsigned_whole, 4}},   {"uint32", {Kind::unsigned_whole, 4}},
    {"float", {Kind::floating, 4}},        {"float32", {Kind::floating, 4}},
    {"double", {Kind::floating, 8}},       {"float64", {Kind::floating, 8}}};

constexpr std::pair<std::string_view, PlyHeader::Encoding> kEncodings[] = {
    {"ascii", PlyHeader::Encoding::text},
    {"binary_little_endian", PlyHeader::Encoding::little_endian},
    {"binary_big_endian", PlyHeader::Encoding::big_endian}};

/// The value of the row that the next word of the line names.
template <class Rows>
auto named_by_word(WordReader& reader, const Rows& rows, std::string_view expected) {
  const std::string_view word = reader.word_of_line();
  for (const auto& [name, value] : rows)
    if (name == word) return value;
  reader.fail_expected(expected, word);
}

PlyType read_type(WordReader& reader) {
  return named_by_word(reader, kPlyTypes, "a type of numbers, such as float or uint8");
}

/// Names of elements, or of the properties of one.
using Names = std::set<std::string, std::less<>>;

/// A word that is not yet among the names, to which it is added.
std::string read_new_name(WordReader& reader, Names& names, std::string_view what) {
  std::string name(reader.word_of_line());
  if (name.empty()) reader.fail_expected(what, name);
  if (!names.insert(name).second)
    reader.fail(std::string(what) + " \"" + name + "\" is there twice");
  return name;
}

PlyElement read_element(WordReader& reader, Names& others) {
  PlyElement element;
  element.line = reader.line();
  element.name = read_new_name(reader, others, "an element");
  element.count = reader.index_of_line("the number of items of an element",
                                       std::numeric_limits<std::uint64_t>::max());
  return element;
}

PlyProperty read_property(WordReader& reader, Names& others) {
  PlyProperty property;
  WordReader ahead = reader;
  if (ahead.word_of_line() == "list") {
    reader.word_of_line();
    property.count = read_type(reader);
    if (property.count->kind == Kind::floating)
      reader.fail("expected a whole type for the length of a list");
  }
  property.type = read_type(reader);
  property.name = read_new_name(reader, others, "a property");
  return property;
}

}  // namespace

std::uint64_t PlyElement::least_bytes(bool text) const {
  std::uint64_t sum = 0;
  for (const PlyProperty& p : properties) sum += text ? 2u : p.count.value_or(p.type).bytes;
  return sum;
}

PlyHeader read_ply_header(WordReader& reader) {
  PlyHeader header;
  if (const std::string_view word = reader.word(); word != "ply")
    reader.fail_expected("\"ply\"", word);
  bool format = false;
  Names elements, properties;  // of the last element
  while (reader.next_line()) {
    const std::string_view word = reader.word_of_line();
    if (word == "end_header") {
      if (!format) reader.fail("expected a line \"format\" before the end of the header");
      return header;
    }
    if (word == "comment" || word == "obj_info") continue;
    if (word == "format") {
      header.encoding =
          named_by_word(reader, kEncodings, "ascii, binary_little_endian or binary_big_endian");
      if (const std::string_view version = reader.word_of_line(); version != "1.0")
        reader.fail_expected("version 1.0", version);
      format = true;
    } else if (word == "element") {
      header.elements.push_back(read_element(reader, elements));
      properties.clear();
    } else if (word == "property" && !header.elements.empty()) {
      header.elements.back().properties.push_back(read_property(reader, properties));
    } else {
      reader.fail_expected("format, comment, element, property or end_header", word);
    }
  }
  reader.fail("expected end_header, got the end of the file");
}

}  // namespace topograd
