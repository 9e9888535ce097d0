// Triangle meshes from and to OBJ, OFF, PLY and STL files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

struct TriangleMesh {
  std::vector<double> positions;  ///< x, y, z of each vertex
  std::vector<std::array<std::uint32_t, 3>> triangles;

  std::size_t vertex_count() const { return positions.size() / 3; }
};

enum class MeshFormat : std::uint8_t { obj, off, ply, stl };
/// The format that a path names by its extension, in any case. Throws Error{InvalidArgument} for
/// other extensions.
MeshFormat mesh_format(std::string_view path);

struct MeshOptions {
  /// Refuse meshes that are not manifold, and triangles with one vertex twice.
  bool strict = false;
};

/// Findings of read_mesh() besides the mesh.
struct MeshNotes {
  static constexpr std::size_t kMostSentences = 10;

  std::size_t edges = 0;     ///< where more than two triangles meet
  std::size_t vertices = 0;  ///< whose triangles are more than one fan
  /// The first of them, edges before vertices: "file:line: not manifold: ...".
  std::vector<std::string> sentences;

  std::size_t degenerate = 0;       ///< triangles with one vertex twice, which were dropped
  std::string degenerate_sentence;  ///< of the first of them: "file:line: ..."
  struct Skipped {
    std::string tag;
    std::size_t lines = 0;
  };
  std::vector<Skipped> skipped;  ///< lines of an OBJ file that other programs read
};

/// Reads a mesh, plain, or packed by gzip or bzip2 with .gz or .bz2 after the extension.
///
/// Coordinates are read in double precision, and faces of more than three corners are split into
/// fans. Triangles with one vertex twice are dropped. Normals, colours and whatever else belongs to
/// vertices and faces is passed over.
///
///   OBJ  vertices and faces; comments, lines that go on, and numbers that count backwards; lines
///        with tags of other programs, such as t, vw, mg and cstype, are skipped
///   OFF  text, also with normals, colours or texture coordinates (COFF, NOFF, STOFF), in capital
///        or small letters, or without this word; the corners of a face may lie on several lines
///   PLY  text, and binary data of both byte orders, with faces or triangle strips; other elements
///        are passed over
///   STL  text and binary data; corners with the same coordinates are one vertex, in order of
///   appearance
///
/// Throws Error{File} if the file cannot be read, Error{Parse} for anything else: numbers that are
/// missing or not finite, faces with vertices that do not exist, a file without faces, one that
/// ends early or goes on, a header that announces more than the file has room for, and what
/// `strict` refuses. Messages begin with "file:line: ", or for binary data with "file: face 3: ".
/// Vertices are counted as the format does: from 1 in OBJ files. Cost: linear in the file; a sort
/// of the edges for `notes` and `strict`.
TriangleMesh read_mesh(const std::string& path, const MeshOptions& options = {},
                       MeshNotes* notes = nullptr);
/// The same of the contents of a file; `name` goes before messages.
TriangleMesh parse_mesh(std::string_view text, MeshFormat format, const std::string& name,
                        const MeshOptions& options = {}, MeshNotes* notes = nullptr);

/// The mesh as a text file. Coordinates read back to the same bits. An STL file has neither
/// vertices without triangles nor numbers of vertices. Throws Error{InvalidArgument} for a triangle
/// with a vertex that does not exist.
std::string mesh_text(const TriangleMesh& mesh, MeshFormat format);
/// Writes the format that the path names. Throws Error{File}, and what mesh_format() and
/// mesh_text() throw.
void write_mesh(const std::string& path, const TriangleMesh& mesh);

}  // namespace topograd
