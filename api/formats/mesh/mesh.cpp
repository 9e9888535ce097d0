// Formats of meshes by their extensions.
#include "mesh.hpp"

#include "../../../ir/error.hpp"
#include "../packed_text.hpp"
#include "../word_reader.hpp"
#include "builder.hpp"

#include <algorithm>
#include <utility>

namespace topograd {
namespace {

constexpr std::pair<std::string_view, MeshFormat> kExtensions[] = {{".obj", MeshFormat::obj},
                                                                   {".off", MeshFormat::off},
                                                                   {".ply", MeshFormat::ply},
                                                                   {".stl", MeshFormat::stl}};

void check_vertices(const TriangleMesh& mesh) {
  for (const auto& triangle : mesh.triangles) {
    for (const std::uint32_t v : triangle) {
      if (v < mesh.vertex_count()) continue;
      throw Error(ErrorCode::InvalidArgument, "mesh: a triangle names vertex " + std::to_string(v) +
                                                  " of " + std::to_string(mesh.vertex_count()));
    }
  }
}

}  // namespace

MeshFormat mesh_format(std::string_view path) {
  const std::string name = lower_case(path);
  for (const auto& [extension, format] : kExtensions)
    if (name.ends_with(extension)) return format;
  std::string reason;
  for (const char* other : {".gltf", ".glb", ".msh"})
    if (name.ends_with(other)) reason = "; glTF and MSH files are not read, convert them";
  throw Error(ErrorCode::InvalidArgument,
              "expected a mesh file that ends in .obj, .off, .ply or .stl, got \"" +
                  std::string(path) + "\"" + reason);
}

TriangleMesh parse_mesh(std::string_view text, MeshFormat format, const std::string& name,
                        const MeshOptions& options, MeshNotes* notes) {
  if (text.empty()) throw Error(ErrorCode::Parse, name + ":1: the file is empty");
  switch (format) {
    case MeshFormat::obj: return parse_obj(text, name, options, notes);
    case MeshFormat::off: return parse_off(text, name, options, notes);
    case MeshFormat::ply: return parse_ply(text, name, options, notes);
    case MeshFormat::stl: return parse_stl(text, name, options, notes);
  }
  return {};
}

TriangleMesh read_mesh(const std::string& path, const MeshOptions& options, MeshNotes* notes) {
  std::string_view unpacked = path;
  for (const std::string_view packed : {".gz", ".bz2"})
    if (path.ends_with(packed)) unpacked.remove_suffix(packed.size());
  const MeshFormat format = mesh_format(unpacked);
  return parse_mesh(read_packed_text(path), format, path, options, notes);
}

std::string mesh_text(const TriangleMesh& mesh, MeshFormat format) {
  check_vertices(mesh);
  switch (format) {
    case MeshFormat::obj: return obj_text(mesh);
    case MeshFormat::off: return off_text(mesh);
    case MeshFormat::ply: return ply_text(mesh);
    case MeshFormat::stl: return stl_text(mesh);
  }
  return {};
}

void write_mesh(const std::string& path, const TriangleMesh& mesh) {
  write_text_file(path, mesh_text(mesh, mesh_format(path)));
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

void append_position(std::string& text, const double* at) {
  for (int d = 0; d < 3; ++d) {
    text += ' ';
    append_number(text, at[d]);
  }
}

void append_counted(std::string& text, const TriangleMesh& mesh) {
  for (std::size_t k = 0; k < mesh.positions.size(); ++k) {
    append_number(text, mesh.positions[k]);
    text += k % 3 == 2 ? '\n' : ' ';
  }
  for (const auto& [a, b, c] : mesh.triangles) {
    text += "3 " + std::to_string(a) + ' ' + std::to_string(b) + ' ' + std::to_string(c) + '\n';
  }
}

}  // namespace topograd
