// draw_mesh: two or more triangle meshes side by side, shaded, as PNG or SVG.
#include <exception>
#include <iostream>
#include <string_view>

#include "canvas.hpp"
#include "scene.hpp"

#include "../../api/formats/mesh/mesh.hpp"

namespace {

constexpr const char* kUsage =
    "usage: draw_mesh OUT.png|OUT.svg MESH CAPTION [MESH CAPTION]...\n"
    "Draws triangle meshes side by side at one scale; those with the first one's vertices are\n"
    "tinted by how far each vertex moved.\n";

void draw(int argc, char** argv) {
  std::vector<topograd::draw::Mesh> meshes;
  std::vector<std::string> captions;
  for (int i = 2; i + 1 < argc; i += 2) {
    const topograd::TriangleMesh mesh = topograd::read_mesh(argv[i]);
    meshes.push_back(topograd::draw::make_mesh(mesh.positions, mesh.triangles));
    captions.emplace_back(argv[i + 1]);
  }
  const topograd::draw::Sheet sheet = topograd::draw::lay_out(std::move(meshes), captions);
  const bool svg = std::string_view(argv[1]).ends_with(".svg");
  svg ? topograd::draw::write_svg(sheet, argv[1]) : topograd::draw::write_png(sheet, argv[1]);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kFailure = 2;
  if (argc < 4 || argc % 2 != 0) {
    std::cerr << kUsage;
    return kFailure;
  }
  try {
    draw(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return kFailure;
  }
}
