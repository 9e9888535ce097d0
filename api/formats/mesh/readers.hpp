// Readers and writers of the formats of meshes, one file each.
#pragma once

#include "builder.hpp"

#include <string>
#include <string_view>

namespace topograd {

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
