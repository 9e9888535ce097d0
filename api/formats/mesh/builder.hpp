// Readers and writers of the formats of meshes, and the mesh in the making that they share.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mesh.hpp"

namespace topograd {

/// One to eight bytes as an unsigned number.
inline std::uint64_t unsigned_number(std::string_view bytes, std::endian order) {
  std::uint64_t value = 0;
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    const std::size_t at = order == std::endian::big ? k : bytes.size() - 1 - k;
    value = value << 8 | static_cast<unsigned char>(bytes[at]);
  }
  return value;
}

/// One to eight bytes as a number in two's complement.
inline std::int64_t signed_number(std::string_view bytes, std::endian order) {
  const auto unused = static_cast<int>(64 - 8 * bytes.size());
  return static_cast<std::int64_t>(unsigned_number(bytes, order) << unused) >> unused;
}

/// Four or eight bytes as a number of IEEE 754.
inline double float_number(std::string_view bytes, std::endian order) {
  const std::uint64_t bits = unsigned_number(bytes, order);
  if (bytes.size() == sizeof(double)) return std::bit_cast<double>(bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

/// An edge where more than two triangles meet, or a vertex whose triangles are more than one fan.
struct NotManifold {
  std::vector<std::uint32_t> vertices;   ///< one or two
  std::vector<std::uint32_t> triangles;  ///< of the edge; the first of each fan
};

/// Edges in ascending order, then vertices. Vertices are judged as if the triangles of each edge
/// were connected, however many they are. Orientations play no part.
///
///   mesh  whose triangles have three different vertices that exist
///
/// Cost: a sort of the edges.
std::vector<NotManifold> find_not_manifold(const TriangleMesh& mesh);

/// Collects the vertices and faces of a file. The location of a face is its line, or its number in
/// binary data.
class MeshBuilder {
 public:
  enum class VertexNames : std::uint8_t { from_zero, from_one, by_position };

  ///   name  of the file, for messages
  MeshBuilder(std::string name, VertexNames names, bool binary = false)
      : name_(std::move(name)), names_(names), binary_(binary) {}

  std::size_t vertex_count() const { return mesh_.vertex_count(); }
  void add_vertex(const std::array<double, 3>& at) {
    mesh_.positions.insert(mesh_.positions.end(), at.begin(), at.end());
  }
  /// Splits the face into a fan. Triangles with one vertex twice are dropped.
  ///
  ///   corners  at least three indices from 0; may exceed the vertices so far
  void add_face(std::span<const std::uint32_t> corners, std::size_t location);

  /// A triangle, likewise.
  void add_triangle(const std::array<std::uint32_t, 3>& corners, std::size_t location);

  /// The mesh. Throws Error{Parse} for a mesh without faces, corners out of range, and what
  /// `options` refuse.
  ///
  ///   end  line of the end of the file
  TriangleMesh finish(std::size_t end, const MeshOptions& options, MeshNotes* notes);

  /// Throws Error{Parse} with file and location.
  [[noreturn]] void fail(std::size_t location, const std::string& what) const;
  /// The same for a number of a vertex, as the file has it, that names none.
  [[noreturn]] void fail_number(std::size_t location, const std::string& number) const;

 private:
  std::string location_text(std::size_t location) const;
  std::string vertex_name(std::uint32_t vertex) const;
  std::string triangles_text(std::span<const std::uint32_t> triangles) const;
  void check_corners() const;
  std::string degenerate_text() const;
  void check_surface(const MeshOptions& options, MeshNotes* notes) const;

  std::string name_;
  VertexNames names_;
  bool binary_;
  TriangleMesh mesh_;
  std::vector<std::size_t> locations_;  ///< by triangle
  /// Triangles with one vertex twice.
  std::vector<std::array<std::uint32_t, 3>> dropped_;
  std::vector<std::size_t> dropped_locations_;
};

/// parse_mesh() calls the one of the format.
TriangleMesh parse_obj(std::string_view text, const std::string& name, const MeshOptions& options,
                       MeshNotes* notes);
TriangleMesh parse_off(std::string_view text, const std::string& name, const MeshOptions& options,
                       MeshNotes* notes);
TriangleMesh parse_ply(std::string_view text, const std::string& name, const MeshOptions& options,
                       MeshNotes* notes);
TriangleMesh parse_stl(std::string_view text, const std::string& name, const MeshOptions& options,
                       MeshNotes* notes);

/// mesh_text() calls the one of the format. All vertices of the triangles exist.
std::string obj_text(const TriangleMesh& mesh);
std::string off_text(const TriangleMesh& mesh);
std::string ply_text(const TriangleMesh& mesh);
std::string stl_text(const TriangleMesh& mesh);

/// The text with the letters of ASCII in lower case.
std::string lower_case(std::string_view text);
/// Appends three numbers, with a space before each, that read back to the same bits.
void append_position(std::string& text, const double* at);
/// Appends the vertices of OFF and PLY files, a line each, and then the triangles.
void append_counted(std::string& text, const TriangleMesh& mesh);

}  // namespace topograd
