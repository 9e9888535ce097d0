// Orthographic view, shading, and points and lines as small solids.
#include "scene.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

namespace topograd::draw {
namespace {

using Corners = std::array<std::uint32_t, 3>;

/// Vertices and triangles of the solids so far.
struct Solids {
  std::vector<double> positions;
  std::vector<Corners> triangles;

  std::uint32_t count() const { return static_cast<std::uint32_t>(positions.size() / 3); }
  void add(const Vec3& at, double length, const Vec3& direction) {
    for (std::size_t k = 0; k < 3; ++k) positions.push_back(at[k] + length * direction[k]);
  }
};

void add_point(Solids& solids, const Vec3& at, double radius) {
  constexpr double kR = 0.57735026918962576;  // 1 / √3
  constexpr std::array<Vec3, 4> kDirections = {
      {{kR, kR, kR}, {kR, -kR, -kR}, {-kR, kR, -kR}, {-kR, -kR, kR}}};
  constexpr std::array<Corners, 4> kFaces = {{{0, 1, 2}, {0, 3, 1}, {0, 2, 3}, {1, 3, 2}}};
  const std::uint32_t first = solids.count();
  for (const Vec3& direction : kDirections) solids.add(at, radius, direction);
  for (const auto& [a, b, c] : kFaces)
    solids.triangles.push_back({first + a, first + b, first + c});
}

void add_line(Solids& solids, const Vec3& from, const Vec3& to, double radius) {
  const Vec3 along = {to[0] - from[0], to[1] - from[1], to[2] - from[2]};
  // Two directions across: the axis that the line is least along, made orthogonal.
  std::size_t least = 0;
  for (std::size_t k = 1; k < 3; ++k)
    if (std::abs(along[k]) < std::abs(along[least])) least = k;
  Vec3 axis = {};
  axis[least] = 1;
  const auto cross = [](const Vec3& a, const Vec3& b) -> Vec3 {
    return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  };
  const auto unit = [](Vec3 a) {
    const double length = std::hypot(a[0], a[1], a[2]);
    for (double& x : a) x = length > 0 ? x / length : 0;
    return a;
  };
  const Vec3 u = unit(cross(along, axis)), v = unit(cross(along, u));
  const std::uint32_t first = solids.count();
  constexpr double kCos = -0.5, kSin = 0.86602540378443865;  // a third of a turn
  for (const Vec3& end : {from, to}) {
    solids.add(end, radius, u);
    for (const double side : {kSin, -kSin})
      solids.add(end, radius,
                 {kCos * u[0] + side * v[0], kCos * u[1] + side * v[1], kCos * u[2] + side * v[2]});
  }
  for (std::uint32_t k = 0; k < 3; ++k) {
    const std::uint32_t a = first + k, b = first + (k + 1) % 3;
    solids.triangles.push_back({a, b, a + 3});
    solids.triangles.push_back({b, b + 3, a + 3});
  }
}

constexpr double kPanelWidth = 640, kHeight = 680, kCaptionHeight = 56, kMargin = 36,
                 kTextSize = 22;

Vec3 operator-(const Vec3& a, const Vec3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Vec3 operator*(double s, const Vec3& a) { return {s * a[0], s * a[1], s * a[2]}; }
Vec3 operator+(const Vec3& a, const Vec3& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
double dot(const Vec3& a, const Vec3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
Vec3 unit(const Vec3& a) {
  const double length = std::sqrt(dot(a, a));
  return length > 0 ? (1 / length) * a : a;
}

/// Orthographic three-quarter view: y is up, the viewer is near the x axis and slightly above it.
struct View {
  Vec3 right, up, toward;  // orthonormal; toward points at the viewer
};

View three_quarter_view() {
  constexpr double kDegree = std::numbers::pi / 180, kTurn = 58 * kDegree, kLift = 16 * kDegree;
  const Vec3 toward = {std::sin(kTurn) * std::cos(kLift), std::sin(kLift),
                       std::cos(kTurn) * std::cos(kLift)};
  const Vec3 right = unit(cross({0, 1, 0}, toward));
  return {right, cross(toward, right), toward};
}

/// Key light over the viewer's left shoulder, sky from above, and a rim that lifts the outline.
Vec3 shade(const Vec3& normal, double tint, const View& view) {
  const Vec3 key = unit(0.9 * view.toward + 0.9 * view.up + (-0.55) * view.right);
  const double diffuse = std::max(0.0, dot(normal, key));
  const double sky = 0.5 + 0.5 * normal[1];
  const double facing = std::max(0.0, dot(normal, view.toward));
  const double rim = std::pow(1 - facing, 3);
  const double light = 0.10 + 0.62 * diffuse + 0.22 * sky + 0.10 * rim;
  const Vec3 still = {0.60, 0.66, 0.74}, moved = {0.93, 0.36, 0.10};
  const Vec3 color = light * ((1 - tint) * still + tint * moved);
  return {std::min(1.0, color[0]), std::min(1.0, color[1]), std::min(1.0, color[2])};
}

void compute_normals(Mesh& mesh) {
  mesh.normals.assign(mesh.positions.size(), Vec3{});
  for (const auto& [a, b, c] : mesh.triangles) {
    const Vec3& origin = mesh.positions[a];
    const Vec3 normal = cross(mesh.positions[b] - origin, mesh.positions[c] - origin);
    for (const int v : {a, b, c}) mesh.normals[v] = mesh.normals[v] + normal;
  }
  for (Vec3& normal : mesh.normals) normal = unit(normal);
}

/// Distance of each vertex from its position in the first mesh; empty for a mesh of another size.
std::vector<double> displacements(const Mesh& mesh, const Mesh& first) {
  std::vector<double> out;
  if (mesh.positions.size() != first.positions.size()) return out;
  for (std::size_t v = 0; v < mesh.positions.size(); ++v) {
    const Vec3 step = mesh.positions[v] - first.positions[v];
    out.push_back(std::sqrt(dot(step, step)));
  }
  return out;
}

/// Values relative to the first mesh's largest, or displacements relative to the largest of all.
void compute_tints(std::vector<Mesh>& meshes) {
  const bool values = !meshes[0].values.empty();
  double largest = 0;
  for (Mesh& mesh : meshes) {
    mesh.tint = values ? mesh.values : displacements(mesh, meshes[0]);
    mesh.tint.resize(mesh.positions.size());
    if (values && &mesh != &meshes[0]) continue;
    for (const double t : mesh.tint) largest = std::max(largest, t);
  }
  for (Mesh& mesh : meshes) {
    for (double& t : mesh.tint) t = largest > 0 ? std::clamp(t / largest, 0.0, 1.0) : 0.0;
  }
}

/// Smallest and largest coordinate of all meshes along one direction of the view.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Range range_along(const std::vector<Mesh>& meshes, const Vec3& direction) {
  Range range;
  for (const Mesh& mesh : meshes) {
    for (const Vec3& p : mesh.positions) {
      range.low = std::min(range.low, dot(p, direction));
      range.high = std::max(range.high, dot(p, direction));
    }
  }
  return range;
}

/// Converts mesh coordinates to pixels of a panel: every panel shows the same window.
struct Frame {
  View view;
  double scale, right_middle, up_middle, middle_y;

  Corner corner(const Mesh& mesh, int v, double center) const {
    const Vec3& p = mesh.positions[v];
    return {center + scale * (dot(p, view.right) - right_middle),
            middle_y - scale * (dot(p, view.up) - up_middle), -dot(p, view.toward),
            shade(mesh.normals[v], mesh.tint[v], view)};
  }
};

Frame frame_of(const std::vector<Mesh>& meshes, double size) {
  const View view = three_quarter_view();
  const Range x = range_along(meshes, view.right), y = range_along(meshes, view.up);
  const double scale = size * std::min((kPanelWidth - 2 * kMargin) / (x.high - x.low),
                                       (kHeight - kCaptionHeight - 2 * kMargin) / (y.high - y.low));
  return {view, scale, (x.low + x.high) / 2, (y.low + y.high) / 2,
          size * (kHeight - kCaptionHeight) / 2};
}

double depth(const std::array<Corner, 3>& t) { return t[0].depth + t[1].depth + t[2].depth; }

bool faces_viewer(const std::array<Corner, 3>& t) {
  return (t[1].x - t[0].x) * (t[2].y - t[0].y) < (t[2].x - t[0].x) * (t[1].y - t[0].y);
}

int pixels(double length) { return static_cast<int>(std::lround(length)); }

Sheet blank(int panels, double size) {
  return {
      panels * pixels(size * kPanelWidth), pixels(size * kHeight), pixels(size * kTextSize), {}};
}

Panel panel_of(const Mesh& mesh, const std::string& caption, const Frame& frame, double center,
               double size) {
  Panel panel{{}, caption, center, size * (kHeight - 0.5 * kCaptionHeight)};
  for (const auto& [a, b, c] : mesh.triangles) {
    const std::array<Corner, 3> triangle = {frame.corner(mesh, a, center),
                                            frame.corner(mesh, b, center),
                                            frame.corner(mesh, c, center)};
    if (faces_viewer(triangle)) panel.triangles.push_back(triangle);
  }
  std::ranges::stable_sort(panel.triangles, std::ranges::greater{}, depth);
  return panel;
}

}  // namespace

Mesh make_marks(std::span<const double> positions,
                std::span<const std::array<std::uint32_t, 2>> lines, double radius) {
  const auto point = [&](std::size_t k) -> Vec3 {
    return {positions[3 * k], positions[3 * k + 1], positions[3 * k + 2]};
  };
  Solids solids;
  for (std::size_t k = 0; k < positions.size() / 3; ++k) add_point(solids, point(k), radius);
  for (const auto& [a, b] : lines) add_line(solids, point(a), point(b), radius / 2);
  return make_mesh(solids.positions, solids.triangles);
}

Mesh make_mesh(std::span<const double> positions,
               std::span<const std::array<std::uint32_t, 3>> triangles,
               std::vector<double> values) {
  Mesh mesh;
  mesh.values = std::move(values);
  for (std::size_t k = 0; k + 2 < positions.size(); k += 3)
    mesh.positions.push_back({positions[k], positions[k + 1], positions[k + 2]});
  for (const auto& [a, b, c] : triangles)
    mesh.triangles.push_back({static_cast<int>(a), static_cast<int>(b), static_cast<int>(c)});
  compute_normals(mesh);
  return mesh;
}

Sheet lay_out(std::vector<Mesh> meshes, const std::vector<std::string>& captions, double size) {
  compute_tints(meshes);
  const Frame frame = frame_of(meshes, size);
  Sheet sheet = blank(static_cast<int>(meshes.size()), size);
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    const double center = (static_cast<double>(i) + 0.5) * size * kPanelWidth;
    sheet.panels.push_back(panel_of(meshes[i], captions[i], frame, center, size));
  }
  return sheet;
}

std::vector<Sheet> lay_out_frames(std::vector<Mesh> meshes,
                                  const std::vector<std::string>& captions, double size) {
  compute_tints(meshes);
  const Frame frame = frame_of(meshes, size);
  std::vector<Sheet> sheets;
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    sheets.push_back(blank(1, size));
    sheets.back().panels.push_back(
        panel_of(meshes[i], captions[i], frame, 0.5 * size * kPanelWidth, size));
  }
  return sheets;
}

Vec3 on_sheet(double right, double up) {
  const View view = three_quarter_view();
  return right * view.right + up * view.up;
}

std::array<int, 3> to_srgb(const Vec3& linear) {
  std::array<int, 3> out{};
  for (int i = 0; i < 3; ++i) {
    const double c = std::clamp(linear[i], 0.0, 1.0);
    const double s = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
    out[i] = static_cast<int>(std::lround(255 * s));
  }
  return out;
}

}  // namespace topograd::draw
