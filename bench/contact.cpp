// Time of arap on a sphere with and without obstacles that no vertex may enter, a ball and a wall.
//
//   bench_contact SUBDIVISIONS [cpu|vulkan [PENALTY]]
//
// Prints medians of three solves from the same start, after one that compiles. Both go on to their
// tolerances; each minimisation with obstacles has at most 50 steps. The wall and the ball cut off
// a tenth of what the solution without them fills.
#include "../frontend/value/math.hpp"
#include "../ir/machine/stopwatch.hpp"
#include "../solver/solve.hpp"
#include "../tools/problems/arap.hpp"
#include "../tools/problems/mesh.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

namespace topograd {
namespace {

constexpr int kSamples = 3, kMostSteps = 2000;
constexpr double kShare = 1e-6;  // of the size: the largest violation

/// The wall z = height, and a ball beside the sphere.
struct Obstacles {
  double height = 0;
  std::array<double, 3> center = {};
  double radius = 0;

  /// How deep a point is in one of them; negative outside.
  double depth(const double* p) const {
    const double away = std::hypot(p[0] - center[0], p[1] - center[1], p[2] - center[2]);
    return std::max(p[2] - height, radius - away);
  }
};

/// Obstacles for a solution without them.
Obstacles obstacles_for(const std::vector<double>& solution) {
  double low = 1e300, high = -1e300, side = -1e300;
  for (std::size_t k = 0; k < solution.size(); k += 3) {
    side = std::max(side, solution[k]);
    low = std::min(low, solution[k + 2]);
    high = std::max(high, solution[k + 2]);
  }
  const double cut = 0.05 * (high - low), radius = 0.4;
  return {high - cut, {side + radius - 3 * cut, 0, 0}, radius};
}

void add_obstacles(Problem& problem, const Parameters& p, const Obstacles& at) {
  std::vector<std::uint32_t> vertices(p.size());
  std::iota(vertices.begin(), vertices.end(), 0);
  problem.add_inequality(vertices.size(), [=](Element e) { return at.height - e.vec3(p, 0).z; },
                         {.indices = vertices, .label = "wall"});
  problem.add_inequality(
      vertices.size(),
      [=](Element e) {
        const Vec3 v = e.vec3(p, 0);
        return norm(Vec3{v.x - at.center[0], v.y - at.center[1], v.z - at.center[2]}) - at.radius;
      },
      {.indices = vertices, .label = "ball"});
}

struct Timed {
  Summary summary;
  double milliseconds = 0;
};

Timed time(problems::Arap& arap, const SolverOptions& options) {
  const std::vector<double> positions = arap.positions, rotations = arap.rotations;
  Solver solver(arap.problem, options);
  Timed out{solver.solve(), 0};
  std::vector<double> times;
  for (int k = 0; k < kSamples; ++k) {
    std::ranges::copy(positions, arap.positions.begin());
    std::ranges::copy(rotations, arap.rotations.begin());
    out.summary = solver.solve();
    times.push_back(1e3 * out.summary.times.total_seconds);
  }
  out.milliseconds = median(std::move(times));
  return out;
}

void run(std::uint32_t subdivisions, Backend backend, double penalty) {
  SolverOptions options;
  options.backend = backend;
  options.initial_penalty = penalty;
  const auto free = problems::arap(problems::icosphere(subdivisions));
  options.max_iterations = kMostSteps;
  const Timed without = time(*free, options);
  options.max_iterations = SolverOptions{}.max_iterations;
  const Obstacles obstacles = obstacles_for(free->positions);
  double before = 0;
  for (std::size_t k = 0; k < free->positions.size(); k += 3)
    before = std::max(before, obstacles.depth(free->positions.data() + k));

  const auto held = problems::arap(problems::icosphere(subdivisions));
  add_obstacles(held->problem, held->problem.parameters(0), obstacles);
  constexpr double kSize = 2;  // the sphere's diameter
  options.constraint_tolerance = kShare * kSize;
  options.kkt_tolerance = 1e-4;
  const Timed with = time(*held, options);
  double after = 0;
  for (std::size_t k = 0; k < held->positions.size(); k += 3)
    after = std::max(after, obstacles.depth(held->positions.data() + k));

  std::printf("%zu vertices, %s\n", free->positions.size() / 3, with.summary.backend.c_str());
  std::printf("without  %8.1f ms  %3zu steps  cost %.8g  depth %.2e\n", without.milliseconds,
              without.summary.iterations.size() - 1, without.summary.final_cost, before);
  std::printf("with     %8.1f ms  %3zu steps  cost %.8g  depth %.2e  %d minimisations, %s\n",
              with.milliseconds, with.summary.iterations.size() - 1, with.summary.final_cost, after,
              with.summary.constrained.outer_iterations, name(with.summary.termination).data());
  for (const ConstraintSummary& one : with.summary.constrained.constraints)
    std::printf("%s: %llu active of %llu\n", one.label.c_str(),
                static_cast<unsigned long long>(one.active),
                static_cast<unsigned long long>(one.rows));
  std::printf("ratio    %8.2f\n", with.milliseconds / without.milliseconds);
}

}  // namespace
}  // namespace topograd

int main(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "", backend = argc > 2 ? argv[2] : "vulkan";
  std::uint32_t subdivisions = 0;
  std::from_chars(word.data(), word.data() + word.size(), subdivisions);
  const double penalty = argc > 3 ? std::atof(argv[3]) : 0;
  if (subdivisions < 1 || subdivisions > 8 || argc > 4 || penalty < 0) {
    std::fputs("usage: bench_contact SUBDIVISIONS [cpu|vulkan [PENALTY]]\n", stderr);
    return 2;
  }
  try {
    topograd::run(subdivisions, topograd::parse_enum<topograd::Backend>("backend", backend),
                  penalty);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
