// Two meshes placed side by side on a sheet: loading, orthographic view, shading.
#include "scene.hpp"

#include <OpenMesh/Core/IO/MeshIO.hh>
#include <OpenMesh/Core/Mesh/TriMesh_ArrayKernelT.hh>
#include <OpenMesh/Core/System/omstream.hh>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

namespace topograd::draw {
namespace {

constexpr int kPanelWidth = 640, kHeight = 680, kCaptionHeight = 56, kMargin = 36, kTextSize = 22;

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

/// Orthographic three-quarter view: y is up, the viewer stands beside the x axis and a little
/// above.
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

/// Key light over the viewer's left shoulder, sky from above, a rim that lifts the outline.
Vec3 shade(const Vec3& normal, double displacement, const View& view) {
  const Vec3 key = unit(0.9 * view.toward + 0.9 * view.up + (-0.55) * view.right);
  const double diffuse = std::max(0.0, dot(normal, key));
  const double sky = 0.5 + 0.5 * normal[1];
  const double facing = std::max(0.0, dot(normal, view.toward));
  const double rim = std::pow(1 - facing, 3);
  const double light = 0.10 + 0.62 * diffuse + 0.22 * sky + 0.10 * rim;
  const Vec3 still = {0.60, 0.66, 0.74}, moved = {0.93, 0.36, 0.10};
  const Vec3 color = light * ((1 - displacement) * still + displacement * moved);
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

/// Fills the displacements of all meshes against the first one.
void compute_displacements(std::vector<Mesh>& meshes) {
  double largest = 0;
  for (Mesh& mesh : meshes) {
    const std::size_t count = mesh.positions.size();
    mesh.displacement.assign(count, 0.0);
    if (count != meshes[0].positions.size()) continue;
    for (std::size_t v = 0; v < count; ++v) {
      const Vec3 step = mesh.positions[v] - meshes[0].positions[v];
      mesh.displacement[v] = std::sqrt(dot(step, step));
      largest = std::max(largest, mesh.displacement[v]);
    }
  }
  for (Mesh& mesh : meshes) {
    for (double& d : mesh.displacement) d = largest > 0 ? d / largest : 0.0;
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

/// From mesh coordinates to pixels of a panel: every panel shows the same window.
struct Frame {
  View view;
  double scale, right_middle, up_middle;

  Corner corner(const Mesh& mesh, int v, double center) const {
    const Vec3& p = mesh.positions[v];
    const double middle_y = (kHeight - kCaptionHeight) / 2.0;
    return {center + scale * (dot(p, view.right) - right_middle),
            middle_y - scale * (dot(p, view.up) - up_middle), -dot(p, view.toward),
            shade(mesh.normals[v], mesh.displacement[v], view)};
  }
};

Frame frame_of(const std::vector<Mesh>& meshes) {
  const View view = three_quarter_view();
  const Range x = range_along(meshes, view.right), y = range_along(meshes, view.up);
  const double scale = std::min((kPanelWidth - 2 * kMargin) / (x.high - x.low),
                                (kHeight - kCaptionHeight - 2 * kMargin) / (y.high - y.low));
  return {view, scale, (x.low + x.high) / 2, (y.low + y.high) / 2};
}

double depth(const std::array<Corner, 3>& t) { return t[0].depth + t[1].depth + t[2].depth; }

bool faces_viewer(const std::array<Corner, 3>& t) {
  return (t[1].x - t[0].x) * (t[2].y - t[0].y) < (t[2].x - t[0].x) * (t[1].y - t[0].y);
}

}  // namespace

Mesh load_mesh(const std::filesystem::path& path) {
  omerr().disable();  // its messages would stand beside the one thrown here
  OpenMesh::TriMesh_ArrayKernelT<> loaded;
  if (!OpenMesh::IO::read_mesh(loaded, path.string()) || loaded.n_faces() == 0) {
    throw std::runtime_error("draw_mesh: no readable triangle mesh in " + path.string());
  }
  Mesh mesh;
  for (const auto vertex : loaded.vertices()) {
    const auto& p = loaded.point(vertex);
    mesh.positions.push_back({p[0], p[1], p[2]});
  }
  for (const auto face : loaded.faces()) {
    auto corner = loaded.cfv_iter(face);
    std::array<int, 3> triangle{};
    for (int& v : triangle) v = (corner++)->idx();
    mesh.triangles.push_back(triangle);
  }
  compute_normals(mesh);
  return mesh;
}

Sheet lay_out(std::vector<Mesh> meshes, const std::vector<std::string>& captions) {
  compute_displacements(meshes);
  const Frame frame = frame_of(meshes);
  const int count = static_cast<int>(meshes.size());
  Sheet sheet{count * kPanelWidth, kHeight, kTextSize, {}};
  for (int i = 0; i < count; ++i) {
    Panel panel{{}, captions[i], (i + 0.5) * kPanelWidth, kHeight - 0.5 * kCaptionHeight};
    for (const auto& [a, b, c] : meshes[i].triangles) {
      const std::array<Corner, 3> triangle = {frame.corner(meshes[i], a, panel.center),
                                              frame.corner(meshes[i], b, panel.center),
                                              frame.corner(meshes[i], c, panel.center)};
      if (faces_viewer(triangle)) panel.triangles.push_back(triangle);
    }
    std::ranges::stable_sort(panel.triangles, std::ranges::greater{}, depth);
    sheet.panels.push_back(std::move(panel));
  }
  return sheet;
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
