// STL files: triangles by the positions of their corners.
#include "builder.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/hash.hpp"
#include "../packed_text.hpp"
#include "../word_reader.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

namespace topograd {
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
