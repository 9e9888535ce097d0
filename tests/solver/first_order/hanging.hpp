// A problem of squares and energies for methods that take both.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../frontend/value/math.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace topograd::test {

/// A rope between two nails that hangs from its weight: squares and energies.
struct Hanging {
  explicit Hanging(std::size_t count = 60) {
    for (std::size_t k = 0; k < count; ++k) {
      const double t = static_cast<double>(k);
      x.insert(x.end(), {t, 0.3 * std::sin(t), 0.2 * std::cos(3 * t)});
    }
    points = problem.add_parameters(x, 3);
    for (std::size_t k = 0; k + 1 < count; ++k)
      problem.add_residual(norm(points.vec3(k + 1) - points.vec3(k)) - 1.05);
    for (std::size_t k = 0; k < count; ++k) problem.add_energy(0.05 * points(k, 2));
    problem.set_constant(points, 0);
    problem.set_constant(points, count - 1);
    problem.set_constant(points, count / 2, 0b010);
  }
  std::vector<double> x;
  Problem problem;
  Parameters points;
};

}  // namespace topograd::test
