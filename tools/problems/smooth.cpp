// smooth(mesh): cotangent smoothing with differentiated weights.
#include "smooth.hpp"

#include "../../frontend/geometry.hpp"
#include "../../frontend/value/math.hpp"
#include "../../ir/error.hpp"
#include "../../ir/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace topograd::problems {
namespace {

using Point = std::array<double, 3>;

Point at(const TriangleMesh& mesh, std::uint32_t v) {
  return {mesh.positions[3 * v], mesh.positions[3 * v + 1], mesh.positions[3 * v + 2]};
}

Point minus(const Point& a, const Point& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

Point cross(const Point& u, const Point& v) {
  return {u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
}

/// Sums of the cross products of the triangles at each vertex.
std::vector<double> normals(const TriangleMesh& mesh) {
  std::vector<double> out(mesh.positions.size());
  for (const auto& t : mesh.triangles) {
    const Point n =
        cross(minus(at(mesh, t[1]), at(mesh, t[0])), minus(at(mesh, t[2]), at(mesh, t[0])));
    for (const std::uint32_t corner : t)
      for (std::size_t k = 0; k < 3; ++k) out[3 * corner + k] += n[k];
  }
  return out;
}

/// Twice the area of the triangle of three vertices.
double double_area(const TriangleMesh& mesh, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const Point n = cross(minus(at(mesh, b), at(mesh, a)), minus(at(mesh, c), at(mesh, a)));
  return std::hypot(n[0], n[1], n[2]);
}

double diagonal(const TriangleMesh& mesh) {
  Point low = at(mesh, 0), high = low;
  for (std::size_t k = 0; k < mesh.positions.size(); ++k) {
    low[k % 3] = std::min(low[k % 3], mesh.positions[k]);
    high[k % 3] = std::max(high[k % 3], mesh.positions[k]);
  }
  const Point d = minus(high, low);
  return std::hypot(d[0], d[1], d[2]);
}

}  // namespace

std::vector<double> noisy_positions(const TriangleMesh& mesh, double noise_size) {
  if (!(noise_size >= 0) || std::isinf(noise_size))
    throw Error(ErrorCode::InvalidArgument,
                "smooth: expected finite noise >= 0, got " + ir::print_number(noise_size));
  if (noise_size == 0) return mesh.positions;
  const std::vector<double> n = normals(mesh);
  const double size = noise_size * diagonal(mesh);
  std::vector<double> out = mesh.positions;
  for (std::size_t v = 0; v < mesh.vertex_count(); ++v) {
    const auto i = static_cast<double>(v);
    const double noise = (std::sin(12.9898 * i) + std::sin(78.233 * i) + std::sin(37.719 * i)) / 3;
    const double length = std::hypot(n[3 * v], n[3 * v + 1], n[3 * v + 2]);
    if (length == 0) continue;  // a vertex without triangles does not move
    for (std::size_t k = 0; k < 3; ++k) out[3 * v + k] += size * noise * n[3 * v + k] / length;
  }
  return out;
}

void check_cotangents(const TriangleMesh& mesh) {
  const auto coordinates = [&](std::uint32_t v) {
    std::string text = std::to_string(v) + " at (";
    const Point p = at(mesh, v);
    for (std::size_t k = 0; k < 3; ++k) text += (k == 0 ? "" : ", ") + ir::print_number(p[k]);
    return text + ")";
  };
  for (const InteriorEdge& e : interior_edges(mesh)) {
    for (const std::uint32_t corner : {e.left, e.right}) {
      if (double_area(mesh, corner, e.from, e.to) > 0) continue;
      throw Error(
          ErrorCode::InvalidArgument,
          "mesh: expected triangles with an area, because the cotangents of their angles weigh "
          "the edges, got one without area: vertices " +
              coordinates(corner) + ", " + coordinates(e.from) + " and " + coordinates(e.to) +
              "; vertices count from 0");
    }
  }
}

void add_cotangent_smoothing(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                             const Uniform* weight, Slice slice) {
  std::vector<std::uint32_t> indices;
  std::size_t count = 0;
  std::uint64_t number = 0;
  for (const InteriorEdge& e : interior_edges(mesh)) {
    if (!slice.has(number++)) continue;
    indices.insert(indices.end(), {e.from, e.to, e.left, e.right});
    ++count;
  }
  if (count == 0) return;
  problem.add_residuals(
      count,
      [&](Element e) {
        const Vec3 a = e.vec3(x, 0), b = e.vec3(x, 1), left = e.vec3(x, 2), right = e.vec3(x, 3);
        const Value w = literal(0.5) * (cotangent(left, a, b) + cotangent(right, a, b));
        Value factor = sqrt(max(w, literal(1e-4)));
        if (weight != nullptr) factor = factor * weight->value();
        return (a - b) * factor;
      },
      {.indices = indices, .label = "smoothing"});
}

std::unique_ptr<Smooth> smooth(const TriangleMesh& mesh, Share share, double noise) {
  if (mesh.triangles.empty()) {
    throw Error(ErrorCode::InvalidArgument, "smooth: expected a mesh with triangles, got none");
  }
  directed_edges(mesh);  // throws for triangles with vertices that do not exist
  auto out = std::make_unique<Smooth>();
  out->positions = noisy_positions(mesh, noise);
  check_cotangents({out->positions, mesh.triangles});
  const Parameters x = out->problem.add_parameters(out->positions, 3, "positions");
  const std::uint64_t vertices = mesh.vertex_count();
  const Slice slice = share.slice(vertices + interior_edges(mesh).size());
  const Slice fits = slice.within({0, vertices});
  for (std::size_t v = fits.first; v < fits.end; ++v) {
    const double* a = &out->positions[3 * v];
    out->problem.add_residual(x.vec3(v) - Vec3{a[0], a[1], a[2]}, {.label = "fit"});
  }
  const Slice edges = slice.within({vertices, slice.end});
  add_cotangent_smoothing(out->problem, x, mesh, nullptr,
                          {edges.first - vertices, edges.end - vertices});
  return out;
}

}  // namespace topograd::problems
