// Times of steps with bounds, manifolds or gradient methods, made on the device and on the host.
#include "../frontend/manifold.hpp"
#include "../frontend/problem.hpp"
#include "../frontend/value/math.hpp"
#include "../solver/solve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../tools/problems/springs.hpp"

namespace topograd::bench {
namespace {

struct Case {
  std::vector<double> x;
  Problem problem;
};

/// The grid of springs on a floor, which some vertices touch from the start.
std::unique_ptr<Case> springs(std::uint32_t width, bool bounded) {
  auto made = std::make_unique<Case>();
  const problems::SpringGrid grid = problems::spring_grid(width);
  made->x = grid.x;
  const Parameters x = made->problem.add_parameters(made->x, 3);
  problems::add_springs(made->problem, x, grid.springs);
  for (std::size_t k = 0; bounded && k < made->x.size() / 3; ++k) {
    made->x[3 * k + 2] = std::max(made->x[3 * k + 2], -0.05);
    made->problem.set_lower_bound(x, k, 2, -0.05);
  }
  return made;
}

using Quaternion4 = std::array<Value, 4>;

Quaternion4 multiply(const Quaternion4& p, const Quaternion4& q) {
  return {p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
          p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
          p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
          p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0]};
}

/// Poses on a grid; residuals are the rotations and positions of neighbours relative to each other.
std::unique_ptr<Case> poses(std::uint32_t width) {
  auto made = std::make_unique<Case>();
  const std::size_t count = std::size_t{width} * width;
  for (std::size_t k = 0; k < count; ++k) {
    const double t = static_cast<double>(k), a = 0.2 * std::sin(t), b = 0.2 * std::cos(2 * t);
    const double n = std::sqrt(1 + a * a + b * b);
    made->x.insert(made->x.end(), {1 / n, a / n, b / n, 0});
  }
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t column = k % width, row = k / width;
    const double t = static_cast<double>(k);
    made->x.insert(made->x.end(), {static_cast<double>(column) + 0.1 * std::sin(t),
                                   static_cast<double>(row), 0.1 * std::cos(3 * t)});
  }
  Problem& problem = made->problem;
  const Parameters q = problem.add_parameters(std::span(made->x).first(4 * count), 4);
  const Parameters p = problem.add_parameters(std::span(made->x).subspan(4 * count), 3);
  const auto edge = [&](std::size_t a, std::size_t b, double dx, double dy) {
    const Quaternion4 from = {q(a, 0), -q(a, 1), -q(a, 2), -q(a, 3)};
    const Quaternion4 turn = multiply(from, {q(b, 0), q(b, 1), q(b, 2), q(b, 3)});
    const double noise = 0.01 * std::sin(static_cast<double>(7 * a + b));
    problem.add_residual({turn[1] - noise, turn[2] + noise, turn[3] - noise});
    const Vec3 gap = p.vec3(b) - p.vec3(a);
    const Quaternion4 back = {q(a, 0), q(a, 1), q(a, 2), q(a, 3)};
    const Quaternion4 seen = multiply(multiply(from, {literal(0), gap.x, gap.y, gap.z}), back);
    problem.add_residual({seen[1] - (dx + noise), seen[2] - (dy - noise), seen[3] - noise});
  };
  for (std::size_t k = 0; k < count; ++k) {
    if (k % width + 1 < width) edge(k, k + 1, 1, 0);
    if (k + width < count) edge(k, k + width, 0, 1);
  }
  problem.set_constant(q, 0);
  problem.set_constant(p, 0);
  problem.set_manifold(q, Manifold::quaternion());
  return made;
}

void measure(const std::string& name, const std::function<std::unique_ptr<Case>()>& make,
             SolverOptions options) {
  options.backend = Backend::vulkan;
  if (options.max_iterations == SolverOptions().max_iterations) options.max_iterations = 12;
  options.function_tolerance = 1e-12;
  options.max_linear_iterations = 100;
  const auto made = make();
  const Summary s = solve(made->problem, options);
  std::vector<double> seconds;
  for (std::size_t k = 2; k < s.iterations.size(); ++k)  // the first uploads buffers and tables
    seconds.push_back(s.iterations[k].iteration_time_in_seconds);
  std::ranges::sort(seconds);
  const double median = seconds.empty() ? 0 : seconds[seconds.size() / 2];
  const double steps = std::max(s.num_iterations(), 1);
  std::printf(
      "%-22s %-5s %8zu unknowns  %-9s %2d steps  cost %.8g  %8.2f ms a step  %5.1f CG  "
      "%5.2f submissions  %5.2f read-backs  %9.0f bytes down\n",
      name.c_str(), std::string(codegen::name(s.precision)).c_str(),
      static_cast<std::size_t>(s.unknowns), std::string(topograd::name(s.linear_solver)).c_str(),
      s.num_iterations(), s.final_cost, 1e3 * median, s.num_linear_iterations / steps,
      static_cast<double>(s.submissions) / steps, static_cast<double>(s.readbacks) / steps,
      static_cast<double>(s.bytes_down) / steps);
  std::fflush(stdout);
}

void run(std::uint32_t width, std::uint32_t pose_width) {
  const auto bounded = [=] { return springs(width, true); };
  const auto free = [=] { return springs(width, false); };
  const auto graph = [=] { return poses(pose_width); };
  for (const LinearSolver linear : {LinearSolver::pcg, LinearSolver::cholesky})
    measure("springs with a floor", bounded, {.linear_solver = linear});
  measure("springs with a floor", bounded,
          {.precision = Precision::f32, .linear_solver = LinearSolver::pcg});
  measure("springs without", free, {.linear_solver = LinearSolver::pcg});
  for (const LinearSolver linear : {LinearSolver::pcg, LinearSolver::cholesky})
    measure("poses", graph, {.linear_solver = linear});
  for (const Precision precision : {Precision::f32, Precision::mixed})
    measure("poses", graph, {.precision = precision, .linear_solver = LinearSolver::pcg});
  for (const Method method : {Method::adam, Method::lbfgs}) {
    for (const bool host : {false, true}) {  // a callback keeps vectors on the host
      measure(std::string(name(method)) + (host ? ", host's vectors" : ""), free,
              {.method = method, .max_iterations = 40, .update_state_every_iteration = host});
    }
  }
}

}  // namespace
}  // namespace topograd::bench

/// Arguments: vertices of the springs per side (300), poses of the graph per side (100).
int main(int argc, char** argv) try {
  const auto argument = [&](int k, int otherwise) {
    return static_cast<std::uint32_t>(argc > k ? std::atoi(argv[k]) : otherwise);
  };
  topograd::bench::run(argument(1, 300), argument(2, 100));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_constrained: %s\n", error.what());
  return 2;
}
