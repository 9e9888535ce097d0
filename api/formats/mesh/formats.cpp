// Meshes as OBJ and OFF files, as PLY files, and as STL files.
#include "../../../ir/error.hpp"
#include "../../../ir/hash.hpp"
#include "../packed_text.hpp"
#include "../word_reader.hpp"
#include "builder.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace topograd {
namespace {

constexpr std::string_view kIgnored[] = {"vn", "vt", "vp", "o",      "g",
                                         "s",  "l",  "p",  "usemtl", "mtllib"};

/// Free-form curves and surfaces, displays, and tags that other programs add.
constexpr std::string_view kForeign[] = {
    "t",    "vw",   "mg",    "con",      "cstype",   "deg",    "bmat",       "step",     "parm",
    "trim", "hole", "scrv",  "sp",       "end",      "curv",   "curv2",      "surf",     "bevel",
    "lod",  "call", "csh",   "c_interp", "d_interp", "maplib", "usemap",     "usemat",   "ctech",
    "cdc",  "cdp",  "stech", "bsp",      "bzp",      "res",    "shadow_obj", "trace_obj"};

class ObjReader {
 public:
  ObjReader(std::string_view text, const std::string& name)
      : reader_(text, name, {.comments = true, .continued_lines = true}),
        mesh_(name, MeshBuilder::VertexNames::from_one) {}

  TriangleMesh read(const MeshOptions& options, MeshNotes* notes) {
    for (bool first = true; first || reader_.next_line(); first = false) {
      const std::string_view word = reader_.word_of_line();
      if (!word.empty()) record(word);
    }
    if (notes != nullptr)
      for (const auto& [tag, lines] : skipped_) notes->skipped.push_back({tag, lines});
    return mesh_.finish(reader_.line(), options, notes);
  }

 private:
  void record(std::string_view word) {
    if (word == "v") return vertex();
    if (word == "f") return face();
    if (std::ranges::find(kForeign, word) != std::end(kForeign)) {
      ++skipped_[std::string(word)];
      return;
    }
    if (std::ranges::find(kIgnored, word) == std::end(kIgnored))
      reader_.fail_expected("an OBJ record", word);
  }

  void vertex() {
    std::array<double, 3> at{};
    for (double& x : at) x = reader_.number_of_line("a coordinate");
    mesh_.add_vertex(at);
  }

  void face() {
    const std::size_t line = reader_.line();
    corners_.clear();
    for (std::string_view word; !(word = reader_.word_of_line()).empty();)
      corners_.push_back(corner(word, line));
    if (corners_.size() < 3)
      mesh_.fail(line, "expected a face of at least three corners, got " +
                           std::to_string(corners_.size()));
    mesh_.add_face(corners_, line);
  }

  /// Vertex of a corner "v", "v/vt", "v//vn" or "v/vt/vn"; negative numbers count backwards from
  /// the latest vertex. A face may come before its vertices.
  std::uint32_t corner(std::string_view word, std::size_t line) const {
    const std::string_view digits = word.substr(0, word.find('/'));
    const char* end = digits.data() + digits.size();
    long long number = 0;
    const auto [at, status] = std::from_chars(digits.data() + digits.starts_with('+'), end, number);
    if (status != std::errc() || at != end)
      reader_.fail_expected("a vertex number in a face", word);
    const auto count = static_cast<long long>(mesh_.vertex_count());
    if (number < 0 && number >= -count) number = count + number + 1;
    if (number <= 0 || number > std::numeric_limits<std::uint32_t>::max())
      mesh_.fail_number(line, std::to_string(number));
    return static_cast<std::uint32_t>(number - 1);
  }

  WordReader reader_;
  MeshBuilder mesh_;
  std::vector<std::uint32_t> corners_;
  std::map<std::string, std::size_t> skipped_;  // lines by tag
};

constexpr std::uint64_t kMostIndex = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kLeastVertex = 6, kLeastFace = 8;  // bytes of "0 0 0\n" and "3 0 1 2\n"
/// Before OFF: texture coordinates, colours and normals after the coordinates of a vertex.
constexpr std::string_view kPrefixes[] = {"", "C", "N", "CN", "ST", "STC", "STN", "STCN"};

/// The number of letters of the word at the beginning: digits may follow without a blank.
std::size_t letters_of(std::string_view word) {
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  return static_cast<std::size_t>(std::ranges::find_if_not(word, is_letter) - word.begin());
}

bool is_keyword(std::string_view letters) {
  std::string word(letters);
  for (char& c : word)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return word.ends_with("OFF") &&
         std::ranges::find(kPrefixes, word.substr(0, word.size() - 3)) != std::end(kPrefixes);
}

/// Reads the keyword, which need not be there, and after it the number of vertices.
std::uint64_t read_beginning(WordReader& reader) {
  WordReader ahead = reader;
  const std::string_view word = ahead.word();
  const std::size_t letters = letters_of(word);
  const bool keyword = is_keyword(word.substr(0, letters));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool digits = letters < word.size() && std::ranges::all_of(word.substr(letters), is_digit);
  if (!(keyword ? digits || letters == word.size() : letters == 0 && digits))
    reader.fail_expected("OFF, COFF, NOFF or STOFF", reader.word());
  if (keyword && digits) {  // "OFF8": the number begins within the word
    WordReader number(word.substr(letters), reader.name());
    reader = ahead;
    return number.index("the number of vertices", kMostIndex);
  }
  if (keyword) reader = ahead;
  return reader.index("the number of vertices", kMostIndex);
}

void check_counts(const WordReader& reader, std::uint64_t vertices, std::uint64_t faces) {
  // The last line may lack its end.
  if (kLeastVertex * vertices + kLeastFace * faces <= reader.left() + 1) return;
  reader.fail("expected " + std::to_string(vertices) + " vertices and " + std::to_string(faces) +
              " faces, got a file that ends " + std::to_string(reader.left()) + " bytes later");
}

/// Colours and other numbers at the end of a line are passed over.
void begin_line(WordReader& reader, const std::string& what) {
  if (!reader.next_line()) reader.fail("expected " + what + ", got the end of the file");
}

}  // namespace

TriangleMesh parse_obj(std::string_view text, const std::string& name, const MeshOptions& options,
                       MeshNotes* notes) {
  return ObjReader(text, name).read(options, notes);
}

std::string obj_text(const TriangleMesh& mesh) {
  std::string text;
  for (std::size_t k = 0; k < mesh.positions.size(); k += 3) {
    text += 'v';
    append_position(text, &mesh.positions[k]);
    text += '\n';
  }
  for (const auto& triangle : mesh.triangles) {
    text += 'f';
    for (const std::uint32_t v : triangle) text += ' ' + std::to_string(std::uint64_t{v} + 1);
    text += '\n';
  }
  return text;
}

TriangleMesh parse_off(std::string_view text, const std::string& name, const MeshOptions& options,
                       MeshNotes* notes) {
  WordReader reader(text, name, {.comments = true});
  MeshBuilder mesh(name, MeshBuilder::VertexNames::from_zero);
  const std::uint64_t vertices = read_beginning(reader);
  const std::uint64_t faces = reader.index("the number of faces", kMostIndex);
  check_counts(reader, vertices, faces);
  for (std::uint64_t k = 0; k < vertices; ++k) {
    begin_line(reader, std::to_string(vertices) + " vertices");
    std::array<double, 3> at{};
    for (double& x : at) x = reader.number_of_line("a coordinate");
    mesh.add_vertex(at);
  }
  std::vector<std::uint32_t> corners;
  for (std::uint64_t k = 0; k < faces; ++k) {
    begin_line(reader, std::to_string(faces) + " faces");
    const std::uint64_t count = reader.index_of_line("the number of corners of a face", kMostIndex);
    if (count < 3)
      reader.fail("expected a face of at least three corners, got " + std::to_string(count));
    corners.clear();
    for (std::uint64_t c = 0; c < count; ++c) {
      const std::uint64_t v = reader.index("a vertex number", kMostIndex);
      if (v >= vertices) mesh.fail_number(reader.line(), std::to_string(v));
      corners.push_back(static_cast<std::uint32_t>(v));
    }
    mesh.add_face(corners, reader.line());
  }
  if (reader.next_line()) reader.fail_expected("the end of the file", reader.word());
  return mesh.finish(reader.line(), options, notes);
}

std::string off_text(const TriangleMesh& mesh) {
  std::string text = "OFF\n" + std::to_string(mesh.vertex_count()) + ' ' +
                     std::to_string(mesh.triangles.size()) + " 0\n";
  append_counted(text, mesh);
  return text;
}

namespace {

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
  std::uint64_t least_bytes(bool text) const {
    std::uint64_t sum = 0;
    for (const PlyProperty& p : properties) sum += text ? 2u : p.count.value_or(p.type).bytes;
    return sum;
  }
};

struct PlyHeader {
  enum class Encoding : std::uint8_t { text, little_endian, big_endian };
  Encoding encoding = Encoding::text;
  std::vector<PlyElement> elements;
};

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

/// Reads up to the end of the line "end_header". Throws Error{Parse} for what is not a header of
/// PLY 1.0, and an element or property that is there twice.
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

using Encoding = PlyHeader::Encoding;

/// The numbers after a header. Errors name file and line, or for binary data file and item.
class PlyNumbers {
 public:
  ///   text    the whole file
  ///   reader  after the header
  PlyNumbers(std::string_view text, WordReader reader, Encoding encoding)
      : reader_(std::move(reader)), encoding_(encoding) {
    if (is_text()) return;
    // The header ends with a line feed, or where the file ends.
    const std::size_t at = text.size() - reader_.left();
    bytes_ = text.substr(std::min(text.find('\n', at), text.size() - 1) + 1);
  }

  bool is_text() const { return encoding_ == Encoding::text; }
  std::size_t line() const { return reader_.line(); }

  /// Before the items of an element: throws if the file cannot have them.
  void begin(const PlyElement& element) {
    element_ = &element;
    const std::uint64_t least = element.least_bytes(is_text());
    const std::uint64_t room = least == 0 ? element.count : left() / least;
    if (element.count <= room) return;
    reader_.fail_at(element.line, "expected " + std::to_string(element.count) + " items of \"" +
                                      element.name + "\", got a file that has room for " +
                                      std::to_string(room));
  }
  void begin_item(std::uint64_t item) { item_ = item; }

  /// A finite number.
  double number(const PlyProperty& property, const PlyType& type) {
    if (is_text()) return reader_.number("\"" + property.name + "\"");
    const std::string_view bytes = take(property, type.bytes);
    const std::endian order =
        encoding_ == Encoding::big_endian ? std::endian::big : std::endian::little;
    switch (type.kind) {
      case PlyType::Kind::signed_whole: return static_cast<double>(signed_number(bytes, order));
      case PlyType::Kind::unsigned_whole: return static_cast<double>(unsigned_number(bytes, order));
      case PlyType::Kind::floating: break;
    }
    const double value = float_number(bytes, order);
    if (!std::isfinite(value))
      fail("expected \"" + property.name + "\" as a finite number, got " + std::to_string(value));
    return value;
  }

  /// The length of a list that the file has room for.
  std::uint64_t length(const PlyProperty& list) {
    const double value = number(list, *list.count);
    const std::uint64_t most = left() / (is_text() ? 2u : list.type.bytes);
    if (value < 0 || value != std::floor(value) || value > static_cast<double>(most)) {
      fail("expected a length of \"" + list.name + "\" from 0 to the " + std::to_string(most) +
           " that the file has room for, got " + text_of(value));
    }
    return static_cast<std::uint64_t>(value);
  }

  /// Passes over a number, which may be anything.
  void skip(const PlyProperty& property) {
    if (!is_text()) {
      take(property, property.type.bytes);
    } else if (reader_.word().empty()) {
      reader_.fail_expected("\"" + property.name + "\"", {});
    }
  }

  void end() {
    if (is_text()) {
      if (const std::string_view word = reader_.word(); !word.empty())
        reader_.fail_expected("the end of the file", word);
    } else if (!bytes_.empty()) {
      throw Error(ErrorCode::Parse, reader_.name() + ": expected the end of the file, got " +
                                        std::to_string(bytes_.size()) + " bytes more");
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    if (is_text()) reader_.fail(what);
    throw Error(ErrorCode::Parse,
                reader_.name() + ": " + element_->name + " " + std::to_string(item_) + ": " + what);
  }

  static std::string text_of(double value) {
    std::string text;
    append_number(text, value);
    return text;
  }

 private:
  /// The last number of a text needs no space after it.
  std::uint64_t left() const { return is_text() ? reader_.left() + 1 : bytes_.size(); }

  std::string_view take(const PlyProperty& property, std::size_t count) {
    if (count > bytes_.size()) fail("expected \"" + property.name + "\", got the end of the file");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  WordReader reader_;
  Encoding encoding_;
  std::string_view bytes_;
  const PlyElement* element_ = nullptr;
  std::uint64_t item_ = 0;
};

class PlyReader {
 public:
  PlyReader(std::string_view text, const std::string& name)
      : PlyReader(text, name, WordReader(text, name)) {}

  TriangleMesh read(const MeshOptions& options, MeshNotes* notes) {
    for (const PlyElement& element : header_.elements) {
      numbers_.begin(element);
      if (element.name == "vertex") {
        read_vertices(element);
      } else if (element.name == "face") {
        read_faces(element);
      } else if (is_strips(element)) {
        read_strips(element);
      } else if (!element.properties.empty()) {
        for (std::uint64_t k = 0; k < element.count; ++k) {
          numbers_.begin_item(k);
          for (const PlyProperty& property : element.properties) skip(property);
        }
      }
    }
    numbers_.end();
    return mesh_.finish(numbers_.line(), options, notes);
  }

 private:
  /// `reader` is after the header when `numbers_` are made.
  PlyReader(std::string_view text, const std::string& name, WordReader reader)
      : header_(read_ply_header(reader)),
        header_end_(reader),
        numbers_(text, std::move(reader), header_.encoding),
        mesh_(name, MeshBuilder::VertexNames::from_zero, !numbers_.is_text()) {}

  void skip(const PlyProperty& property) {
    const std::uint64_t count = property.count ? numbers_.length(property) : 1;
    for (std::uint64_t k = 0; k < count; ++k) numbers_.skip(property);
  }

  void read_vertices(const PlyElement& element) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    if (element.count > kMost)
      header_end_.fail_at(element.line, "expected at most " + std::to_string(kMost) + " vertices");
    for (const char* axis : {"x", "y", "z"}) {
      const auto is_axis = [&](const PlyProperty& p) { return p.name == axis && !p.count; };
      if (std::ranges::none_of(element.properties, is_axis))
        header_end_.fail_at(
            element.line, "expected vertices with x, y and z, got none with " + std::string(axis));
    }
    for (std::uint64_t k = 0; k < element.count; ++k) {
      numbers_.begin_item(k);
      std::array<double, 3> at{};
      for (const PlyProperty& property : element.properties) {
        const bool axis = property.name.size() == 1 && property.name[0] >= 'x' &&
                          property.name[0] <= 'z' && !property.count;
        if (axis) {
          at[static_cast<std::size_t>(property.name[0] - 'x')] =
              numbers_.number(property, property.type);
        } else {
          skip(property);
        }
      }
      mesh_.add_vertex(at);
    }
  }

  static bool has_corners(const PlyProperty& property) {
    return property.count && property.type.kind != PlyType::Kind::floating &&
           (property.name == "vertex_indices" || property.name == "vertex_index");
  }

  void read_faces(const PlyElement& element) {
    if (std::ranges::count_if(element.properties, has_corners) != 1)
      header_end_.fail_at(element.line,
                          "expected faces with one list of whole numbers, vertex_indices or "
                          "vertex_index");
    for (std::uint64_t k = 0; k < element.count; ++k) {
      numbers_.begin_item(k);
      for (const PlyProperty& property : element.properties)
        has_corners(property) ? read_face(property, k) : skip(property);
    }
  }

  static bool is_strips(const PlyElement& element) {
    return element.name == "tristrips" &&
           std::ranges::count_if(element.properties, has_corners) == 1;
  }

  void read_strips(const PlyElement& element) {
    for (std::uint64_t k = 0; k < element.count; ++k) {
      numbers_.begin_item(k);
      for (const PlyProperty& property : element.properties)
        has_corners(property) ? read_strip(property, k) : skip(property);
    }
  }

  void read_face(const PlyProperty& property, std::uint64_t face) {
    const std::uint64_t count = numbers_.length(property);
    const std::size_t location = numbers_.is_text() ? numbers_.line() : face;
    if (count < 3)
      mesh_.fail(location,
                 "expected a face of at least three corners, got " + std::to_string(count));
    corners_.clear();
    for (std::uint64_t c = 0; c < count; ++c) {
      const double v = numbers_.number(property, property.type);
      if (v < 0 || v != std::floor(v) || v >= std::numeric_limits<std::uint32_t>::max())
        mesh_.fail_number(location, PlyNumbers::text_of(v));
      corners_.push_back(static_cast<std::uint32_t>(v));
    }
    mesh_.add_face(corners_, location);
  }

  /// Triangles of three successive corners, every other one turned round. A negative number ends a
  /// strip.
  void read_strip(const PlyProperty& property, std::uint64_t strip) {
    const std::uint64_t count = numbers_.length(property);
    const std::size_t location = numbers_.is_text() ? numbers_.line() : strip;
    corners_.clear();  // of the strip so far
    for (std::uint64_t c = 0; c < count; ++c) {
      const double v = numbers_.number(property, property.type);
      if (v < 0 && v == std::floor(v)) {
        corners_.clear();
        continue;
      }
      if (v != std::floor(v) || v >= std::numeric_limits<std::uint32_t>::max())
        mesh_.fail_number(location, PlyNumbers::text_of(v));
      corners_.push_back(static_cast<std::uint32_t>(v));
      const std::size_t n = corners_.size();
      if (n < 3) continue;
      const bool turned = n % 2 == 0;
      mesh_.add_triangle(
          {corners_[turned ? n - 2 : n - 3], corners_[turned ? n - 3 : n - 2], corners_[n - 1]},
          location);
    }
  }

  PlyHeader header_;
  WordReader header_end_;  ///< for errors
  PlyNumbers numbers_;
  MeshBuilder mesh_;
  std::vector<std::uint32_t> corners_;
};

}  // namespace

TriangleMesh parse_ply(std::string_view text, const std::string& name, const MeshOptions& options,
                       MeshNotes* notes) {
  return PlyReader(text, name).read(options, notes);
}

std::string ply_text(const TriangleMesh& mesh) {
  std::string text = "ply\nformat ascii 1.0\nelement vertex " +
                     std::to_string(mesh.vertex_count()) +
                     "\nproperty double x\nproperty double y\nproperty double z\nelement face " +
                     std::to_string(mesh.triangles.size()) +
                     "\nproperty list uchar uint vertex_indices\nend_header\n";
  append_counted(text, mesh);
  return text;
}

namespace {

constexpr std::size_t kHeader = 80, kCounted = kHeader + 4, kTriangle = 50;
constexpr std::string_view kSolid = "solid";

using Position = std::array<double, 3>;

struct HashPosition {
  std::size_t operator()(const Position& at) const {
    std::uint64_t hash = 0;
    for (const double x : at) hash = ir::mix64(hash ^ std::hash<double>()(x));
    return hash;
  }
};

/// One vertex for each position; 0 and −0 are one.
class Weld {
 public:
  explicit Weld(MeshBuilder& mesh) : mesh_(mesh) {}

  void add(const std::array<Position, 3>& triangle, std::size_t location) {
    std::array<std::uint32_t, 3> corners{};
    for (std::size_t k = 0; k < 3; ++k) {
      const auto [at, fresh] =
          vertices_.emplace(triangle[k], static_cast<std::uint32_t>(mesh_.vertex_count()));
      if (fresh) mesh_.add_vertex(triangle[k]);
      corners[k] = at->second;
    }
    mesh_.add_face(corners, location);
  }

 private:
  MeshBuilder& mesh_;
  std::unordered_map<Position, std::uint32_t, HashPosition> vertices_;
};

void expect(WordReader& reader, std::string_view expected) {
  const std::string_view word = reader.word();
  if (lower_case(word) != expected) reader.fail_expected('"' + std::string(expected) + '"', word);
}

TriangleMesh parse_text(std::string_view text, const std::string& name, const MeshOptions& options,
                        MeshNotes* notes) {
  WordReader reader(text, name);
  MeshBuilder mesh(name, MeshBuilder::VertexNames::by_position);
  Weld weld(mesh);
  const auto facet = [&] {
    const std::size_t line = reader.line();
    expect(reader, "normal");
    for (int k = 0; k < 3; ++k) reader.word();
    expect(reader, "outer");
    expect(reader, "loop");
    std::array<Position, 3> triangle{};
    for (Position& corner : triangle) {
      expect(reader, "vertex");
      for (double& x : corner) x = reader.number("a coordinate");
    }
    expect(reader, "endloop");
    expect(reader, "endfacet");
    weld.add(triangle, line);
  };
  for (bool more = true; more;) {  // solids
    expect(reader, kSolid);
    reader.next_line();  // after the name
    std::string word;
    while ((word = lower_case(reader.word())) == "facet") facet();
    if (word != "endsolid") reader.fail_expected("\"facet\" or \"endsolid\"", word);
    more = reader.next_line();
  }
  return mesh.finish(reader.line(), options, notes);
}

TriangleMesh parse_binary(std::string_view bytes, const std::string& name,
                          const MeshOptions& options, MeshNotes* notes) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::Parse, name + ": " + what);
  };
  if (bytes.size() < kCounted)
    refuse("expected \"solid\", or 84 bytes or more of binary STL, got " +
           std::to_string(bytes.size()) + " bytes");
  const std::uint64_t count = unsigned_number(bytes.substr(kHeader, 4), std::endian::little);
  const std::size_t room = (bytes.size() - kCounted) / kTriangle;
  if (count > room)
    refuse("expected " + std::to_string(count) + " triangles, got a file that has room for " +
           std::to_string(room));
  const std::size_t end = kCounted + kTriangle * count;
  if (end < bytes.size())
    refuse("expected the end of the file after " + std::to_string(count) + " triangles, got " +
           std::to_string(bytes.size() - end) + " bytes more");
  MeshBuilder mesh(name, MeshBuilder::VertexNames::by_position, true);
  Weld weld(mesh);
  for (std::size_t t = 0; t < count; ++t) {
    std::array<Position, 3> triangle{};
    for (std::size_t k = 0; k < 9; ++k) {
      constexpr std::size_t kNormal = 12;
      double& x = triangle[k / 3][k % 3];
      x = float_number(bytes.substr(kCounted + kTriangle * t + kNormal + 4 * k, 4),
                       std::endian::little);
      if (!std::isfinite(x))
        mesh.fail(t, "expected a coordinate as a finite number, got " + std::to_string(x));
    }
    weld.add(triangle, t);
  }
  return mesh.finish(0, options, notes);
}

/// Headers of binary files may begin with "solid", too.
bool is_binary(std::string_view text, const std::string& name) {
  if (text.size() >= kCounted &&
      text.size() - kCounted ==
          kTriangle * unsigned_number(text.substr(kHeader, 4), std::endian::little))
    return true;
  const std::size_t begin = text_begin(text, name);
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n", begin), text.size());
  return lower_case(text.substr(first, kSolid.size())) != kSolid || text.find('\0') != text.npos;
}

Position normal_of(const Position& a, const Position& b, const Position& c) {
  Position n{};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::size_t e = (d + 1) % 3, f = (d + 2) % 3;
    n[d] = (b[e] - a[e]) * (c[f] - a[f]) - (b[f] - a[f]) * (c[e] - a[e]);
  }
  const double length = std::hypot(n[0], n[1], n[2]);
  if (!(length > 0) || !std::isfinite(length)) return {};
  for (double& x : n) x /= length;
  return n;
}

}  // namespace

TriangleMesh parse_stl(std::string_view text, const std::string& name, const MeshOptions& options,
                       MeshNotes* notes) {
  return (is_binary(text, name) ? parse_binary : parse_text)(text, name, options, notes);
}

std::string stl_text(const TriangleMesh& mesh) {
  std::string text = "solid mesh\n";
  for (const auto& triangle : mesh.triangles) {
    std::array<Position, 3> corners{};
    for (std::size_t k = 0; k < 3; ++k)
      std::copy_n(&mesh.positions[3 * std::size_t{triangle[k]}], 3, corners[k].begin());
    text += "facet normal";
    append_position(text, normal_of(corners[0], corners[1], corners[2]).data());
    text += "\nouter loop\n";
    for (const Position& corner : corners) {
      text += "vertex";
      append_position(text, corner.data());
      text += '\n';
    }
    text += "endloop\nendfacet\n";
  }
  return text + "endsolid mesh\n";
}

}  // namespace topograd
