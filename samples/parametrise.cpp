// Flattens a surface into the plane with minimum distortion: the symmetric Dirichlet energy of
// Smith and Schaefer (2015) for each triangle, minimised by Newton's method.
//
//   parametrise [SURFACE.obj] [FLAT.obj] [VERTICES ALONG A SIDE]
//
// The surface is a hill over a square; both files can be viewed side by side.
#include <topograd/topograd.hpp>

#include "sample.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace tg = topograd;

namespace {

using Point = std::array<double, 3>;

struct Surface {
  std::vector<Point> points;
  std::vector<std::array<std::size_t, 3>> triangles;

  explicit Surface(std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < n; ++i) {
        const double x = 2.0 * double(i) / double(n - 1) - 1,
                     y = 2.0 * double(j) / double(n - 1) - 1;
        points.push_back({x, 0.9 * std::exp(-3 * (x * x + y * y)) + 0.1 * std::sin(4 * x), y});
        if (i + 1 == n || j + 1 == n) continue;
        const std::size_t a = j * n + i;
        triangles.push_back({a, a + n, a + 1});
        triangles.push_back({a + 1, a + n, a + n + 1});
      }
    }
  }
};

/// The triangle in the plane: (0, 0), (length, 0), (x, y).
struct Flat {
  double length, x, y;

  Flat(const Point& a, const Point& b, const Point& c) {
    double bb = 0, bc = 0, cc = 0;
    for (int k = 0; k < 3; ++k) {
      bb += (b[k] - a[k]) * (b[k] - a[k]);
      bc += (b[k] - a[k]) * (c[k] - a[k]);
      cc += (c[k] - a[k]) * (c[k] - a[k]);
    }
    length = std::sqrt(bb);
    x = bc / length;
    y = std::sqrt(cc - x * x);
  }
};

// area (‖J‖² + ‖J⁻¹‖²), J being the map from the flat triangle to u; infinite where it turns over.
tg::Value distortion(const tg::Vec2& a, const tg::Vec2& b, const tg::Vec2& c, const Flat& flat) {
  const tg::Vec2 first = (b - a) / flat.length;
  const tg::Vec2 second = ((c - a) - first * flat.x) / flat.y;
  const tg::Value determinant = first.x * second.y - first.y * second.x;
  const tg::Value squares = dot(first, first) + dot(second, second);
  const tg::Value energy = 0.5 * flat.length * flat.y * (squares + squares / square(determinant));
  return select(determinant > tg::literal(0.0), energy,
                tg::literal(std::numeric_limits<double>::infinity()));
}

void write(const std::string& path, const Surface& surface, const std::vector<double>* flat) {
  std::ostringstream file;
  for (std::size_t v = 0; v < surface.points.size(); ++v) {
    const Point& p = surface.points[v];
    if (flat != nullptr) {
      file << "v " << (*flat)[2 * v + 1] << " 0 " << (*flat)[2 * v] << '\n';
    } else {
      file << "v " << p[0] << ' ' << p[1] << ' ' << p[2] << '\n';
    }
  }
  for (const auto& t : surface.triangles)
    file << "f " << t[0] + 1 << ' ' << t[1] + 1 << ' ' << t[2] + 1 << '\n';
  sample::write_file(path, file.view());
}

}  // namespace

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  const std::string surface_file = arguments.text(), flat_file = arguments.text();
  const Surface surface(arguments.count<std::size_t>(40, 2, 10'000));
  std::vector<double>
      u;  // the start: the surface seen from above, turned so that areas are positive
  for (const Point& p : surface.points) u.insert(u.end(), {p[2], p[0]});

  tg::Problem problem;
  const tg::Parameters x = problem.add_parameters(u, 2);
  double area = 0;
  for (const auto& [a, b, c] : surface.triangles) {
    const Flat flat(surface.points[a], surface.points[b], surface.points[c]);
    area += 0.5 * flat.length * flat.y;
    problem.add_energy(distortion(x.vec2(a), x.vec2(b), x.vec2(c), flat));
  }
  const tg::Summary summary = tg::solve(problem, {.method = tg::Method::newton});
  std::printf("%s\ndistortion %.4f at the start, %.4f at the end (4 where lengths are kept)\n",
              summary.brief_report().c_str(), summary.initial_cost / area,
              summary.final_cost / area);
  if (!surface_file.empty()) write(surface_file, surface, nullptr);
  if (!flat_file.empty()) write(flat_file, surface, &u);
  return summary.termination == tg::Termination::CONVERGENCE ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "parametrise [SURFACE.obj] [FLAT.obj] [VERTICES]", program);
}
