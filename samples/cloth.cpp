// A cloth falls over a ball: implicit Euler; each frame minimises inertia, springs and contact.
//
//   cloth [OUT.obj] [VERTICES ALONG A SIDE] [FRAMES] [STEPS OF A FRAME]
//
// Prints the median time of a frame, and each frame for which its steps do not suffice; writes the
// last frame. Uses the backend in TOPOGRAD_BACKEND.
#include <topograd/topograd.hpp>

#include "sample.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace tg = topograd;

namespace {

constexpr double kStep = 1.0 / 60;                                             // seconds
constexpr double kMass = 0.2, kStretch = 400, kContact = 2000, kDrag = 0.995;  // SI units
constexpr double kRadius = 0.35, kGravity = 9.81;

struct Spring {
  std::size_t a, b;
};

/// Vertices of a square of 1 m at the height 0.6, with springs along its sides and diagonals.
struct Cloth {
  std::size_t width;
  std::vector<double> positions;
  std::vector<Spring> springs;

  explicit Cloth(std::size_t n) : width(n) {
    const auto at = [n](std::size_t i, std::size_t j) { return j * n + i; };
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < n; ++i) {
        const double h = 1.0 / double(n - 1);
        positions.insert(positions.end(), {double(i) * h - 0.5, 0.6, double(j) * h - 0.45});
        if (i + 1 < n) springs.push_back({at(i, j), at(i + 1, j)});
        if (j + 1 < n) springs.push_back({at(i, j), at(i, j + 1)});
        if (i + 1 < n && j + 1 < n) {
          springs.push_back({at(i, j), at(i + 1, j + 1)});
          springs.push_back({at(i + 1, j), at(i, j + 1)});
        }
      }
    }
  }

  double length(const Spring& s) const {
    const double *a = &positions[3 * s.a], *b = &positions[3 * s.b];
    return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
  }

  void write(const std::string& path) const {
    std::ostringstream file;
    for (std::size_t k = 0; k < positions.size(); k += 3)
      file << "v " << positions[k] << ' ' << positions[k + 1] << ' ' << positions[k + 2] << '\n';
    for (std::size_t j = 0; j + 1 < width; ++j) {
      for (std::size_t i = 0; i + 1 < width; ++i) {
        const std::size_t a = j * width + i + 1;  // OBJ counts from 1
        file << "f " << a << ' ' << a + width << ' ' << a + 1 << '\n';
        file << "f " << a + 1 << ' ' << a + width << ' ' << a + width + 1 << '\n';
      }
    }
    sample::write_file(path, file.view());
  }
};

}  // namespace

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  const std::string out = arguments.text("cloth.obj");
  Cloth cloth(arguments.count<std::size_t>(40, 2, 10'000));
  const int frames = arguments.count(45), steps = arguments.count(20);
  std::vector<double>& x = cloth.positions;
  const std::size_t vertices = x.size() / 3;

  tg::Problem problem;
  const tg::Parameters p = problem.add_parameters(x, 3);
  const tg::Data free = problem.add_data(x, 3);  // where each vertex would go by itself
  const double inertia = std::sqrt(kMass / double(vertices)) / kStep;
  const double contact = std::sqrt(kContact / double(vertices));
  for (std::size_t v = 0; v < vertices; ++v) {
    problem.add_residual((p.vec3(v) - free.vec3(v)) * inertia, {.label = "inertia"});
    problem.add_residual(relu(kRadius - norm(p.vec3(v))) * contact, {.label = "contact"});
  }
  for (const Spring& s : cloth.springs) {
    problem.add_residual((norm(p.vec3(s.a) - p.vec3(s.b)) - cloth.length(s)) * std::sqrt(kStretch),
                         {.label = "spring"});
  }

  tg::Solver solver(problem, {.method = tg::Method::newton,
                              .linear_solver = tg::LinearSolver::pcg,
                              .max_iterations = steps,
                              .function_tolerance = 1e-6});
  std::vector<double> before = x, target(x.size()), milliseconds;
  std::uint64_t compiled = 0;
  for (int frame = 0; frame < frames; ++frame) {
    if (frame > 0 && tg::Interrupts::came()) break;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double velocity = kDrag * (x[k] - before[k]) / kStep;
      target[k] = x[k] + kStep * velocity - (k % 3 == 1 ? kStep * kStep * kGravity : 0);
    }
    before = x;
    problem.set(free, target);  // numbers change, nothing is compiled
    const auto begin = std::chrono::steady_clock::now();
    const tg::Summary summary = solver.solve();
    if (!summary.is_solution_usable()) {
      std::fprintf(stderr, "cloth: %s\n", summary.message.c_str());
      return 1;
    }
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    milliseconds.push_back(time.count());
    if (summary.termination == tg::Termination::NO_CONVERGENCE)
      std::printf("frame %d: %s. %s\n", frame, summary.message.c_str(),
                  std::string(tg::text(summary.advice)).c_str());
    if (frame > 0) compiled += summary.shaders_compiled;
  }
  cloth.write(out);

  double lowest = 1e9;  // distance of the cloth from the ball's centre
  for (std::size_t v = 0; v < vertices; ++v)
    lowest = std::min(lowest, std::hypot(x[3 * v], x[3 * v + 1], x[3 * v + 2]));
  std::ranges::sort(milliseconds);
  std::printf(
      "%zu vertices, %zu frames: %.1f ms a frame in the median, %llu shaders compiled after "
      "the first; nearest to the centre %.3f of %.3f\n",
      vertices, milliseconds.size(), milliseconds[milliseconds.size() / 2],
      static_cast<unsigned long long>(compiled), lowest, kRadius);
  return compiled == 0 && lowest > 0.9 * kRadius ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "cloth [OUT.obj] [VERTICES] [FRAMES] [STEPS]", program);
}
