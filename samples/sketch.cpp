// A sketch: points are drawn, constraints come and go, and after each change the sketch is solved
// again. Known kinds of constraints are not analysed again and compile nothing; the first points of
// a new array may need shaders that address them.
#include <topograd/topograd.hpp>

#include <cmath>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

namespace tg = topograd;

namespace {

/// A drawing of points in the plane. Every stroke is an array of its own, which stays in place.
class Sketch {
 public:
  /// Adds points, given as x and y of each; returns the number of the first.
  std::size_t draw(std::vector<double> coordinates) {
    strokes_.push_back(std::move(coordinates));
    const tg::Parameters stroke = problem_.add_parameters(strokes_.back(), 2);
    for (std::size_t k = 0; k < stroke.size(); ++k) points_.push_back({stroke, k});
    return points_.size() - strokes_.back().size() / 2;
  }
  tg::Residual distance(std::size_t a, std::size_t b, double length) {
    return problem_.add_residual(norm(point(a) - point(b)) - length, {.label = "distance"});
  }
  tg::Residual horizontal(std::size_t a, std::size_t b) {
    return problem_.add_residual(point(a).y - point(b).y, {.label = "horizontal"});
  }
  tg::Residual perpendicular(std::size_t a, std::size_t corner, std::size_t b) {
    return problem_.add_residual(dot(point(a) - point(corner), point(b) - point(corner)),
                                 {.label = "perpendicular"});
  }
  void pin(std::size_t a) { problem_.set_constant(points_[a].array, points_[a].block); }
  void remove(const tg::Residual& constraint) { problem_.remove(constraint); }

  /// Solves and prints a line. True if all constraints hold and nothing was compiled needlessly.
  bool solve(const char* change, bool new_kinds, bool new_points) {
    // Damping keeps points without constraints where they are.
    const tg::Summary s = tg::solve(problem_, {.max_iterations = 100, .function_tolerance = 1e-14});
    const std::uint64_t forms = problem_.statistics().canonical_forms;
    std::printf("%-26s %2llu residuals  cost %.1e  %2d steps  %llu kinds analysed  %llu compiled\n",
                change, static_cast<unsigned long long>(s.residuals), s.final_cost,
                s.num_iterations(), static_cast<unsigned long long>(forms),
                static_cast<unsigned long long>(s.shaders_compiled));
    const bool analysed = forms != forms_, compiled = s.shaders_compiled > 0;
    forms_ = forms;
    return s.is_solution_usable() && s.final_cost < 1e-12 && (!analysed || new_kinds) &&
           (!compiled || new_points);
  }
  double x(std::size_t a) const { return at(a)[0]; }
  double y(std::size_t a) const { return at(a)[1]; }

 private:
  struct Point {
    tg::Parameters array;
    std::size_t block;
  };
  tg::Vec2 point(std::size_t a) const { return points_[a].array.vec2(points_[a].block); }
  const double* at(std::size_t a) const {
    for (const std::vector<double>& stroke : strokes_) {
      if (2 * a < stroke.size()) return &stroke[2 * a];
      a -= stroke.size() / 2;
    }
    return nullptr;
  }

  std::deque<std::vector<double>> strokes_;
  tg::Problem problem_;
  std::vector<Point> points_;
  std::uint64_t forms_ = 0;
};

}  // namespace

int main() {
  Sketch sketch;
  bool good = true;

  const std::size_t a = sketch.draw({0, 0, 4.2, 0.3, 3.9, 3.1, -0.2, 2.8});
  sketch.pin(a);
  sketch.horizontal(a, a + 1);
  sketch.perpendicular(a + 1, a, a + 3);
  sketch.perpendicular(a, a + 1, a + 2);
  sketch.perpendicular(a + 1, a + 2, a + 3);
  const tg::Residual width = sketch.distance(a, a + 1, 4);
  sketch.distance(a + 1, a + 2, 3);
  good = sketch.solve("a rectangle, 4 x 3", true, true) && good;

  sketch.remove(width);
  const tg::Residual wider = sketch.distance(a, a + 1, 6);
  good = sketch.solve("6 wide", false, false) && good;
  good = good && std::abs(sketch.x(a + 1) - 6) < 1e-6;

  const std::size_t b = sketch.draw({7, 4});
  sketch.distance(a + 2, b, 2);
  sketch.distance(a + 1, b, std::sqrt(13.0));
  good = sketch.solve("a point, two distances", false, true) && good;

  sketch.remove(wider);
  sketch.distance(a, b, 9);
  good = sketch.solve("another length, no width", false, false) && good;

  std::printf("the new point: %.4f %.4f\n", sketch.x(b), sketch.y(b));
  return good && std::abs(sketch.x(b) - std::sqrt(72.0)) < 1e-6 ? 0 : 1;
}
