// arap(mesh): as-rigid-as-possible deformation with one rotation per vertex.
#include "arap.hpp"

#include "../../api/formats/packed_text.hpp"
#include "../../api/formats/word_reader.hpp"
#include "../../frontend/mat.hpp"
#include "../../ir/error.hpp"

#include <algorithm>
#include <limits>

namespace topograd::problems {
void add_rigid_edges(Problem& problem, const Parameters& p, const Parameters& a,
                     const TriangleMesh& mesh, const Uniform* weight, Slice slice) {
  const double* u = mesh.positions.data();
  std::uint64_t number = 0;
  for (const auto& [i, j] : directed_edges(mesh)) {
    if (!slice.has(number++)) continue;
    const Vec3 rest = {u[3 * i] - u[3 * j], u[3 * i + 1] - u[3 * j + 1],
                       u[3 * i + 2] - u[3 * j + 2]};
    const Vec3 difference = p.vec3(i) - p.vec3(j) - rotate(a.vec3(i), rest);
    problem.add_residual(weight == nullptr ? difference : difference * weight->value(),
                         {.label = "edge"});
  }
}

std::vector<Pin> arap_pins(const TriangleMesh& mesh) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::size_t i = 0; i < mesh.vertex_count(); ++i) {
    low = std::min(low, mesh.positions[3 * i + 1]);
    high = std::max(high, mesh.positions[3 * i + 1]);
  }
  const double h = high - low;
  std::vector<Pin> pins;
  for (std::size_t i = 0; i < mesh.vertex_count(); ++i) {
    const double* u = &mesh.positions[3 * i];
    const bool bottom = u[1] <= low + 0.05 * h, top = u[1] >= high - 0.05 * h;
    if (!bottom && !top) continue;
    pins.push_back({static_cast<std::uint32_t>(i), {u[0], u[1], u[2] + (top ? h / 2 : 0.0)}});
  }
  return pins;
}

std::vector<Pin> parse_pins(std::string_view text, const std::string& name, std::size_t vertices) {
  WordReader reader(text, name, {.comments = true});
  std::vector<Pin> pins;
  std::vector<std::size_t> lines(vertices);  // of the pins, by vertex; 0: none
  const auto begins_with_word = [&] {
    const std::string_view line = reader.rest_of_line();
    const std::size_t first = line.find_first_not_of(" \t\r");
    return first != std::string_view::npos && line[first] != '#';
  };
  for (bool next = begins_with_word() || reader.next_line(); next; next = reader.next_line()) {
    Pin pin;
    pin.vertex = static_cast<std::uint32_t>(reader.index_of_line("a vertex", vertices));
    if (lines[pin.vertex] != 0)
      reader.fail("expected each vertex once, got vertex " + std::to_string(pin.vertex) +
                  " of line " + std::to_string(lines[pin.vertex]));
    lines[pin.vertex] = reader.line();
    for (double& coordinate : pin.target) coordinate = reader.number_of_line("a coordinate");
    if (const std::string_view more = reader.word_of_line(); !more.empty())
      reader.fail_expected("the end of the line", more);
    pins.push_back(pin);
  }
  if (pins.empty()) reader.fail("expected lines NUMBER x y z, got none");
  return pins;
}

std::vector<Pin> read_pins(const std::string& path, std::size_t vertices) {
  return parse_pins(read_packed_text(path), path, vertices);
}

std::unique_ptr<Arap> arap(const TriangleMesh& mesh, Share share) {
  return arap(mesh, arap_pins(mesh), share);
}

std::unique_ptr<Arap> arap(const TriangleMesh& mesh, const std::vector<Pin>& pins, Share share) {
  if (mesh.triangles.empty()) {
    throw Error(ErrorCode::InvalidArgument, "arap: expected a mesh with triangles, got none");
  }
  auto out = std::make_unique<Arap>();
  out->positions = mesh.positions;
  out->rotations.assign(mesh.positions.size(), 0.0);
  const Parameters p = out->problem.add_parameters(out->positions, 3, "positions");
  const Parameters a = out->problem.add_parameters(out->rotations, 3, "rotations");
  const std::uint64_t edges = directed_edges(mesh).size();
  const Slice slice = share.slice(edges + pins.size());
  add_rigid_edges(out->problem, p, a, mesh, nullptr, slice);
  std::uint64_t number = edges;
  for (const auto& [vertex, c] : pins) {
    if (!slice.has(number++)) continue;
    out->problem.add_residual((p.vec3(vertex) - Vec3{c[0], c[1], c[2]}) * kPinWeight,
                              {.label = "pin"});
  }
  return out;
}

}  // namespace topograd::problems
