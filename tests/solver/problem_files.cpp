// Files that solver tests read.
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

NistSet read_nist(const std::filesystem::path& path) {
  constexpr int kFirstDataLine = 61;
  std::ifstream file = open(path);
  NistSet set;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream in(line);
    std::string name, equals;
    double values[3];
    if (number >= kFirstDataLine) {
      if (!(in >> values[0] >> values[1])) continue;
      set.y.push_back(values[0]);
      set.x.push_back(values[1]);
    } else if (in >> name >> equals >> values[0] >> values[1] >> values[2] && name[0] == 'b' &&
               equals == "=") {
      set.starts[0].push_back(values[0]);
      set.starts[1].push_back(values[1]);
      set.certified.push_back(values[2]);
    } else if (line.starts_with("Residual Sum of Squares:")) {
      set.certified_cost = std::stod(line.substr(line.find(':') + 1));
    }
  }
  return set;
}

}  // namespace topograd::test
