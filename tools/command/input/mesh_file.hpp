// Triangle meshes from and to OBJ files.
#pragma once

#include "../../problems/mesh.hpp"

#include <string>

namespace topograd::command {

/// Reads vertices and triangles; polygons with more corners are cut into fans.
///
/// Throws Error{File} if the file cannot be read, Error{Parse} with the line if it is empty, is no
/// OBJ file, ends in the middle of a record, or names a vertex that is not there.
problems::TriangleMesh read_mesh(const std::string& path);

/// The same of the text of a file; `name` goes before messages. Throws Error{Parse}.
problems::TriangleMesh parse_mesh(const std::string& text, const std::string& name);

/// Writes vertices and triangles, numbers so that they read back to the same bits. Throws
/// Error{File}.
void write_mesh(const std::string& path, const problems::TriangleMesh& mesh);

}  // namespace topograd::command
