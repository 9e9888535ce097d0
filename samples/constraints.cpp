// A chain of points with fixed lengths that hangs over a ball: equalities, inequalities,
// multipliers.
#include <topograd/topograd.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace tg = topograd;

int main() {
  // Points wish to lie on a line that leads through a ball.
  constexpr std::size_t kPoints = 21;
  constexpr double kRadius = 0.6, kLength = 0.12;
  std::vector<double> x, wish;
  for (std::size_t k = 0; k < kPoints; ++k)
    wish.insert(wish.end(), {0.1 * static_cast<double>(k) - 1, 0.2, 0.1});
  x = wish;

  tg::Problem problem;
  const tg::Parameters p = problem.add_parameters(x, 3);
  for (std::size_t k = 0; k < kPoints; ++k)
    problem.add_residual(p.vec3(k) - tg::Vec3{wish[3 * k], wish[3 * k + 1], wish[3 * k + 2]});

  // c(x) = 0: neighbours are kLength apart.
  for (std::size_t k = 0; k + 1 < kPoints; ++k)
    problem.add_equality(norm(p.vec3(k + 1) - p.vec3(k)) - kLength, {.label = "link"});

  // c(x) >= 0, as a map: no point is inside of the ball around the origin.
  std::vector<std::uint32_t> points;
  for (std::uint32_t k = 0; k < kPoints; ++k) points.push_back(k);
  problem.add_inequality(
      kPoints, [=](tg::Element e) { return dot(e.vec3(p, 0), e.vec3(p, 0)) - kRadius * kRadius; },
      {.indices = points, .label = "outside"});

  const tg::Summary summary =
      tg::solve(problem, {.constraint_tolerance = 1e-6, .kkt_tolerance = 1e-5});

  std::printf("%s after %d minimisations\n", tg::name(summary.termination).data(),
              summary.constrained.outer_iterations);
  for (const tg::ConstraintSummary& one : summary.constrained.constraints) {
    std::printf("%-8s %2llu of %2llu active, largest multiplier %.4f\n", one.label.c_str(),
                static_cast<unsigned long long>(one.active),
                static_cast<unsigned long long>(one.rows), one.largest_multiplier);
  }

  double shortest = 10, worst_link = 0;
  for (std::size_t k = 0; k < kPoints; ++k) {
    shortest = std::min(shortest, std::hypot(x[3 * k], x[3 * k + 1], x[3 * k + 2]));
    if (k == 0) continue;
    const double link = std::hypot(x[3 * k] - x[3 * k - 3], x[3 * k + 1] - x[3 * k - 2],
                                   x[3 * k + 2] - x[3 * k - 1]);
    worst_link = std::max(worst_link, std::abs(link - kLength));
  }
  std::printf("nearest point %.6f, links right to %.0e\n", shortest, worst_link);
  const bool good = shortest > kRadius - 1e-6 && worst_link < 1e-6;
  return good && summary.termination == tg::Termination::CONVERGENCE ? 0 : 1;
}
