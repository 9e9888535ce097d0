// Wavefront's OBJ files.
#include "builder.hpp"

#include "../word_reader.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

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

}  // namespace topograd
