// A cloth falls over a mannequin and never enters it: each frame is a minimisation with
// inequalities.
//
//   drape [OUT.obj] [VERTICES ALONG A SIDE] [FRAMES]
//
// Prints the median time of a frame and the deepest vertex of all frames; writes the last frame.
// Uses the backend in TOPOGRAD_BACKEND.
#include <topograd/topograd.hpp>

#include "sample.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tg = topograd;

namespace {

constexpr double kStep = 1.0 / 60;                                            // seconds
constexpr double kMass = 0.3, kStretch = 200, kDrag = 0.98, kGravity = 9.81;  // SI units
constexpr double kThickness = 2e-3, kDeepest = 1e-6;

/// All points within a radius of a segment.
struct Capsule {
  std::array<double, 3> from, to;
  double radius;
};

/// Torso, neck, head and upper arms; y is up.
constexpr std::array<Capsule, 5> kBody = {{{{0, -0.3, 0}, {0, 0.15, 0}, 0.16},
                                           {{0, 0.2, 0}, {0, 0.4, 0}, 0.06},
                                           {{0, 0.48, 0}, {0, 0.5, 0}, 0.1},
                                           {{0.05, 0.22, 0}, {0.4, 0.1, 0}, 0.07},
                                           {{-0.05, 0.22, 0}, {-0.4, 0.1, 0}, 0.07}}};

double distance(const Capsule& capsule, const double* p) {
  double along = 0, squared = 0;
  for (int k = 0; k < 3; ++k) {
    const double d = capsule.to[k] - capsule.from[k];
    along += (p[k] - capsule.from[k]) * d;
    squared += d * d;
  }
  const double t = std::clamp(along / squared, 0.0, 1.0);
  std::array<double, 3> away = {};
  for (int k = 0; k < 3; ++k)
    away[k] = p[k] - capsule.from[k] - t * (capsule.to[k] - capsule.from[k]);
  return std::hypot(away[0], away[1], away[2]) - capsule.radius;
}

/// A square of 1.2 m above the body.
struct Cloth {
  std::uint32_t width;
  std::vector<double> positions, lengths;
  std::vector<std::uint32_t> threads;

  explicit Cloth(std::uint32_t n) : width(n) {
    for (std::uint32_t j = 0; j < n; ++j)
      for (std::uint32_t i = 0; i < n; ++i)
        positions.insert(positions.end(),
                         {1.2 * i / (n - 1) - 0.6, 0.62, 1.2 * j / (n - 1) - 0.58});
    for (std::uint32_t j = 0; j < n; ++j) {
      for (std::uint32_t i = 0; i < n; ++i) {
        if (i + 1 < n) add_thread(i, j, i + 1, j);
        if (j + 1 < n) add_thread(i, j, i, j + 1);
        if (i + 1 < n && j + 1 < n) {
          add_thread(i, j, i + 1, j + 1);
          add_thread(i + 1, j, i, j + 1);
        }
      }
    }
  }

  void add_thread(std::uint32_t i, std::uint32_t j, std::uint32_t k, std::uint32_t l) {
    const std::uint32_t from = j * width + i, to = l * width + k;
    threads.insert(threads.end(), {from, to});
    const double *a = &positions[3 * from], *b = &positions[3 * to];
    lengths.push_back(std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]));
  }

  /// How deep a vertex is in the body; negative outside.
  double depth() const {
    double most = -1;
    for (std::size_t v = 0; v < positions.size(); v += 3)
      for (const Capsule& part : kBody)
        most = std::max(most, kThickness - distance(part, &positions[v]));
    return most;
  }

  void write(const std::string& path) const {
    std::ostringstream file;
    for (std::size_t k = 0; k < positions.size(); k += 3)
      file << "v " << positions[k] << ' ' << positions[k + 1] << ' ' << positions[k + 2] << '\n';
    for (std::uint32_t j = 0; j + 1 < width; ++j) {
      for (std::uint32_t i = 0; i + 1 < width; ++i) {
        const std::uint32_t a = j * width + i + 1;  // OBJ counts from 1
        file << "f " << a << ' ' << a + width << ' ' << a + 1 << '\n';
        file << "f " << a + 1 << ' ' << a + width << ' ' << a + width + 1 << '\n';
      }
    }
    sample::write_file(path, file.view());
  }
};

/// Inequalities of every vertex and every part of the body: one topology.
void add_body(tg::Problem& problem, const tg::Parameters& p) {
  std::vector<std::uint32_t> vertices;
  std::vector<double> numbers;
  for (const Capsule& part : kBody) {
    for (std::uint32_t v = 0; v < p.size(); ++v) {
      vertices.push_back(v);
      numbers.insert(numbers.end(), part.from.begin(), part.from.end());
      numbers.insert(numbers.end(), part.to.begin(), part.to.end());
      numbers.push_back(part.radius + kThickness);
    }
  }
  problem.add_inequality(vertices.size(),
                         [=](tg::Element e) {
                           const tg::Vec3 from = e.data_vec3(0);
                           const tg::Vec3 axis = e.data_vec3(3) - from;
                           const tg::Vec3 at = e.vec3(p, 0) - from;
                           const tg::Value t = min(max(dot(at, axis) / dot(axis, axis), 0.0), 1.0);
                           return norm(at - axis * t) - e.data(6);
                         },
                         {.indices = vertices, .data = numbers, .label = "body"});
}

}  // namespace

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  const std::string out = arguments.text("drape.obj");
  Cloth cloth(arguments.count<std::uint32_t>(30, 2, 1'000));
  const int frames = arguments.count(60);
  std::vector<double>& x = cloth.positions;

  tg::Problem problem;
  const tg::Parameters p = problem.add_parameters(x, 3);
  const tg::Data free = problem.add_data(x, 3);  // where each vertex would go by itself
  const double inertia = std::sqrt(kMass / double(p.size())) / kStep;
  for (std::size_t v = 0; v < p.size(); ++v)
    problem.add_residual((p.vec3(v) - free.vec3(v)) * inertia, {.label = "inertia"});
  // Threads resist stretching, not folding.
  problem.add_residuals(cloth.lengths.size(),
                        [=](tg::Element e) {
                          const tg::Value length = norm(e.vec3(p, 0) - e.vec3(p, 1));
                          return relu(length - e.data(0)) * std::sqrt(kStretch);
                        },
                        {.indices = cloth.threads, .data = cloth.lengths, .label = "thread"});
  add_body(problem, p);

  tg::Solver solver(
      problem, {.constraint_tolerance = kDeepest, .kkt_tolerance = 1e-3, .initial_penalty = 100});
  std::vector<double> before = x, target(x.size()), milliseconds;
  double deepest = -1;
  std::uint64_t touching = 0, compiled = 0;
  for (int frame = 0; frame < frames && !tg::Interrupts::came(); ++frame) {
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double move = kDrag * (x[k] - before[k]);
      target[k] = x[k] + move - (k % 3 == 1 ? kStep * kStep * kGravity : 0);
    }
    before = x;
    problem.set(free, target);  // numbers change, nothing is compiled
    const auto begin = std::chrono::steady_clock::now();
    const tg::Summary summary = solver.solve();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (summary.termination != tg::Termination::CONVERGENCE) {
      std::fprintf(stderr, "drape: frame %d: %s\n", frame, summary.message.c_str());
      return 1;
    }
    milliseconds.push_back(time.count());
    deepest = std::max(deepest, cloth.depth());
    touching = summary.constrained.constraints.at(0).active;
    if (frame > 0) compiled += summary.shaders_compiled;
  }
  cloth.write(out);

  std::ranges::sort(milliseconds);
  std::printf(
      "%zu vertices, %zu frames: %.1f ms a frame in the median, %llu shaders compiled after "
      "the first\n%llu vertices touch the body in the end; the deepest of all frames is "
      "%.1e m inside\n",
      p.size(), milliseconds.size(), milliseconds[milliseconds.size() / 2],
      static_cast<unsigned long long>(compiled), static_cast<unsigned long long>(touching),
      deepest);
  return compiled == 0 && touching > 10 && deepest <= kDeepest ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "drape [OUT.obj] [VERTICES] [FRAMES]", program);
}
