// Meshes as text: Wavefront's OBJ files, and OFF files of Geomview.
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "../word_reader.hpp"
#include "builder.hpp"

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

}  // namespace topograd
