// Reading of files for solver tests.
#include "problem_files.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace topograd::test {
namespace {

std::ifstream open(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return file;
}

}  // namespace

problems::TriangleMesh read_obj(const std::filesystem::path& path) {
  std::ifstream file = open(path);
  problems::TriangleMesh mesh;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string kind;
    in >> kind;
    if (kind == "v") {
      double x = 0, y = 0, z = 0;
      in >> x >> y >> z;
      mesh.positions.insert(mesh.positions.end(), {x, y, z});
    } else if (kind == "f") {
      std::array<std::uint32_t, 3> t{};
      in >> t[0] >> t[1] >> t[2];
      mesh.triangles.push_back({t[0] - 1, t[1] - 1, t[2] - 1});
    }
  }
  return mesh;
}

}  // namespace topograd::test
