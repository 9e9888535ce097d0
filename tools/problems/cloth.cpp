// cloth(W): a square cloth over a ball, held at its corners.
#include "cloth.hpp"

#include "mesh.hpp"

#include "../../frontend/vec.hpp"
#include "../../ir/error.hpp"

#include <array>
#include <cmath>
#include <string>

namespace topograd::problems {
namespace {

constexpr std::uint32_t kLargest = 37'837;  // 3 W² scalars have 32-bit indices
// SI units: kg, m/s², N/m, N/m, J, N/m of the whole cloth.
constexpr double kMass = 0.2, kGravity = 9.81;
constexpr double kShear = 60, kDilation = 40, kBending = 5e-4, kContact = 1e4;
constexpr double kSpan = 0.8, kHeight = 0.65, kRise = 0.36;  // of the start, in m
constexpr std::array<double, 3> kBall = {0, 0.65, 0};
constexpr double kRadius = 0.3;

using Point = std::array<double, 2>;
Point operator-(const Point& a, const Point& b) { return {a[0] - b[0], a[1] - b[1]}; }
double dot(const Point& a, const Point& b) { return a[0] * b[0] + a[1] * b[1]; }
double cross(const Point& a, const Point& b) { return a[0] * b[1] - a[1] * b[0]; }
double cotangent(const Point& a, const Point& b) { return dot(a, b) / std::abs(cross(a, b)); }

/// The flat cloth in its own plane: vertex k is at (i h, j h).
struct Flat {
  std::uint32_t width;
  double h = 1.0 / (width - 1);

  Point at(std::uint32_t k) const {
    const std::uint32_t row = k / width, column = k % width;
    return {h * column, h * row};
  }
};

TriangleMesh start_of(const Flat& flat) {
  TriangleMesh mesh;
  const std::uint32_t w = flat.width;
  for (std::uint32_t k = 0; k < w * w; ++k) {
    const auto [along, down] = flat.at(k);
    const double u = along - 0.5, v = down - 0.5;
    const double height = kHeight + kRise * (1 - 4 * u * u) * (1 - 4 * v * v);
    mesh.positions.insert(mesh.positions.end(), {kSpan * u, height, kSpan * v});
    if (k % w + 1 == w || k / w + 1 == w) continue;
    // Diagonals alternate, so that the cloth bends alike both ways.
    const std::uint32_t right = k + 1, below = k + w, across = k + w + 1;
    if ((k % w + k / w) % 2 == 0) {
      mesh.triangles.push_back({k, below, across});
      mesh.triangles.push_back({k, across, right});
    } else {
      mesh.triangles.push_back({k, below, right});
      mesh.triangles.push_back({right, below, across});
    }
  }
  return mesh;
}

/// Elements of one map.
struct Elements {
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
};

void add_stretch(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                 const Flat& flat) {
  Elements out;
  for (const auto& [a, b, c] : mesh.triangles) {
    const Point ab = flat.at(b) - flat.at(a), ac = flat.at(c) - flat.at(a);
    const double determinant = cross(ab, ac);
    out.indices.insert(out.indices.end(), {a, b, c});
    // The inverse of the matrix with the columns ab and ac, and the area.
    out.data.insert(out.data.end(),
                    {ac[1] / determinant, -ac[0] / determinant, -ab[1] / determinant,
                     ab[0] / determinant, std::abs(determinant) / 2});
  }
  problem.add_energies(mesh.triangles.size(),
                       [&](Element e) {
                         const Vec3 a = e.vec3(x, 0), ab = e.vec3(x, 1) - a, ac = e.vec3(x, 2) - a;
                         const Vec3 u = ab * e.data(0) + ac * e.data(2);
                         const Vec3 v = ab * e.data(1) + ac * e.data(3);
                         const Value uu = (dot(u, u) - 1.0) * 0.5, vv = (dot(v, v) - 1.0) * 0.5;
                         const Value uv = dot(u, v) * 0.5, trace = uu + vv;
                         const Value squares = uu * uu + vv * vv + 2.0 * uv * uv;
                         return e.data(4) * (kShear * squares + kDilation / 2 * trace * trace);
                       },
                       {.indices = out.indices, .data = out.data, .label = "stretch"});
}

void add_bending(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                 const Flat& flat) {
  const std::vector<InteriorEdge> edges = interior_edges(mesh);
  Elements out;
  for (const InteriorEdge& edge : edges) {
    const Point a = flat.at(edge.from), b = flat.at(edge.to);
    const Point l = flat.at(edge.left), r = flat.at(edge.right);
    const double al = cotangent(b - a, l - a), ar = cotangent(b - a, r - a);
    const double bl = cotangent(a - b, l - b), br = cotangent(a - b, r - b);
    const double area = (std::abs(cross(b - a, l - a)) + std::abs(cross(b - a, r - a))) / 2;
    out.indices.insert(out.indices.end(), {edge.from, edge.to, edge.left, edge.right});
    out.data.insert(out.data.end(), {bl + br, al + ar, -al - bl, -ar - br, 1.5 * kBending / area});
  }
  problem.add_energies(edges.size(),
                       [&](Element e) {
                         Vec3 sum = e.vec3(x, 0) * e.data(0);
                         for (int k = 1; k < 4; ++k) sum = sum + e.vec3(x, k) * e.data(k);
                         return e.data(4) * dot(sum, sum);
                       },
                       {.indices = out.indices, .data = out.data, .label = "bend"});
}

void add_forces(Problem& problem, const Parameters& x, std::uint32_t vertices) {
  Elements ball, weight;
  for (std::uint32_t v = 0; v < vertices; ++v) {
    ball.indices.push_back(v);
    ball.data.insert(ball.data.end(), {kBall[0], kBall[1], kBall[2], kRadius});
    weight.data.push_back(kMass / vertices);
  }
  problem.add_energies(vertices, [&](Element e) { return kGravity * e.data(0) * e.vec3(x, 0).y; },
                       {.indices = ball.indices, .data = weight.data, .label = "weight"});
  problem.add_energies(vertices,
                       [&](Element e) {
                         const Vec3 away = e.vec3(x, 0) - e.data_vec3(0);
                         const Value depth = relu(e.data(3) - norm(away));
                         return kContact / vertices * 0.5 * (depth * depth);
                       },
                       {.indices = ball.indices, .data = ball.data, .label = "ball"});
}

}  // namespace

std::unique_ptr<Cloth> cloth(std::uint32_t width) {
  if (width < 2 || width > kLargest) {
    throw Error(ErrorCode::InvalidArgument, "cloth: expected a width in 2 .. " +
                                                std::to_string(kLargest) + ", got " +
                                                std::to_string(width));
  }
  const Flat flat{width};
  auto out = std::make_unique<Cloth>();
  out->start = start_of(flat);
  out->positions = out->start.positions;
  const Parameters x = out->problem.add_parameters(out->positions, 3, "positions");
  add_stretch(out->problem, x, out->start, flat);
  add_bending(out->problem, x, out->start, flat);
  add_forces(out->problem, x, width * width);
  for (const std::uint32_t corner : {0U, width - 1, width * (width - 1), width * width - 1})
    out->problem.set_constant(x, corner);
  return out;
}

}  // namespace topograd::problems
