// Reads and writes meshes with OpenMesh.
#pragma once

#include "sample.hpp"

#include <OpenMesh/Core/IO/MeshIO.hh>
#include <OpenMesh/Core/Mesh/TriMesh_ArrayKernelT.hh>

#include <sstream>
#include <string>

namespace sample {

using Mesh = OpenMesh::TriMesh_ArrayKernelT<>;

/// Throws topograd::Error{File}.
inline Mesh read_mesh(const std::string& path) {
  Mesh mesh;
  omerr().disable();  // only the exception reports errors
  if (!OpenMesh::IO::read_mesh(mesh, path)) fail_to_read(path);
  return mesh;
}

/// Writes like write_file(), in the format of the path's extension.
inline void write_mesh(const std::string& path, const Mesh& mesh) {
  std::ostringstream text;
  omerr().disable();
  if (!OpenMesh::IO::write_mesh(mesh, text, path)) fail_to_write(path);
  write_file(path, text.view());
}

}  // namespace sample
