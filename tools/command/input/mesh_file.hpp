// Reads and writes triangle meshes as OBJ files.
#pragma once

#include "../../problems/mesh.hpp"

#include <string>

namespace topograd::command {

/// Reads vertices and triangles; polygons with more corners are split into fans.
///
/// Throws Error{File} if the file cannot be read, Error{Parse} with the line if it is empty, is not
/// an OBJ file, ends within a record, or refers to a vertex that does not exist.
problems::TriangleMesh read_mesh(const std::string& path);

/// The same for the text of a file; messages begin with `name`. Throws Error{Parse}.
problems::TriangleMesh parse_mesh(const std::string& text, const std::string& name);

/// Writes vertices and triangles, with numbers that read back to the same bits. Throws Error{File}.
void write_mesh(const std::string& path, const problems::TriangleMesh& mesh);

}  // namespace topograd::command
