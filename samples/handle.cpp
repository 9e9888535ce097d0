// A sphere follows a handle: its north pole is pulled around, the south stays, and each frame is a
// few steps from the last one. Prints frame times and writes a film, an animated PNG.
//
//   handle [OUT.png] [SUBDIVISIONS] [FRAMES] [rigid|developable]
//
// The surface stays as rigid as possible, by Levenberg-Marquardt, or folds into pieces that can be
// unrolled while its edges keep their lengths, by L-BFGS. Uses the backend in TOPOGRAD_BACKEND, or
// the fastest one.
#include <topograd/topograd.hpp>

#include "draw/canvas.hpp"
#include "draw/scene.hpp"
#include "problems/developable.hpp"
#include "problems/mesh.hpp"
#include "sample.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>
#include <vector>

namespace tg = topograd;

namespace {

/// A surface with an array of targets for the fixed vertices and the handle.
struct Sphere {
  tg::problems::TriangleMesh mesh;
  std::vector<double> rest, positions, rotations, targets;
  std::vector<std::size_t> handle;  // rows of `targets` that move
  tg::Problem problem;
  tg::Data held;

  Sphere(std::uint32_t subdivisions, bool developable)
      : mesh(tg::problems::icosphere(subdivisions)),
        rest(mesh.positions),
        positions(rest),
        rotations(rest.size(), 0.0) {
    const tg::Parameters p = problem.add_parameters(positions, 3);
    if (developable) {
      unroll(p);
    } else {
      stay_rigid(p);
    }
    hold(p, developable ? 30 : 10);
  }

  /// The position of the handle at a time in [0, 1]: pulled out, once around, and back.
  void move_handle(double time) {
    const double pull = std::sin(std::numbers::pi * time), turn = 4 * std::numbers::pi * time;
    for (const std::size_t row : handle) {
      const double* u = &rest[3 * vertex_of_[row]];
      targets[3 * row] = u[0] + 0.8 * pull * std::cos(turn);
      targets[3 * row + 1] = u[1] + 0.9 * pull;
      targets[3 * row + 2] = u[2] + 0.8 * pull * std::sin(turn);
    }
    problem.set(held, targets);  // numbers change, nothing is compiled
  }

  double distance_to_handle() const {
    double most = 0;
    for (const std::size_t row : handle) {
      const double *x = &positions[3 * vertex_of_[row]], *c = &targets[3 * row];
      most = std::max(most, std::hypot(x[0] - c[0], x[1] - c[1], x[2] - c[2]));
    }
    return most;
  }

 private:
  /// Each edge is unchanged up to a rotation of its vertex (as in samples/arap.cpp).
  void stay_rigid(const tg::Parameters& p) {
    const tg::Parameters a = problem.add_parameters(rotations, 3);
    for (const auto& [i, j] : tg::problems::directed_edges(mesh)) {
      const double* u = rest.data();
      const tg::Vec3 edge = {u[3 * i] - u[3 * j], u[3 * i + 1] - u[3 * j + 1],
                             u[3 * i + 2] - u[3 * j + 2]};
      problem.add_residual(p.vec3(i) - p.vec3(j) - rotate(a.vec3(i), edge), {.label = "edge"});
    }
  }

  /// The normals around each vertex lie in a plane (as in samples/developable.cpp); edges keep
  /// their lengths.
  void unroll(const tg::Parameters& p) {
    tg::problems::add_developability(problem, p, mesh, tg::problems::Developability::covariance);
    for (const auto& [i, j, length] : tg::problems::edge_lengths(mesh))
      problem.add_residual((norm(p.vec3(i) - p.vec3(j)) / length - 1.0) * 3.0, {.label = "edge"});
  }

  void hold(const tg::Parameters& p, double weight) {
    for (std::size_t v = 0; v < mesh.vertex_count(); ++v) {
      const double y = rest[3 * v + 1];
      if (std::abs(y) < 0.85) continue;
      if (y > 0) handle.push_back(vertex_of_.size());
      vertex_of_.push_back(v);
      targets.insert(targets.end(), &rest[3 * v], &rest[3 * v] + 3);
    }
    held = problem.add_data(targets, 3);
    for (std::size_t row = 0; row < vertex_of_.size(); ++row)
      problem.add_residual((p.vec3(vertex_of_[row]) - held.vec3(row)) * weight, {.label = "held"});
  }

  std::vector<std::size_t> vertex_of_;
};

double percentile(std::vector<double> times, double share) {
  std::ranges::sort(times);
  const auto last = static_cast<double>(times.size() - 1);
  return times[static_cast<std::size_t>(std::lround(share * last))];
}

}  // namespace

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  const std::string film = arguments.text("handle.png");
  const auto subdivisions = arguments.count<std::uint32_t>(3, 1, 8);
  const int frames = arguments.count(48, 2);
  const bool developable = arguments.choice({"rigid", "developable"}) == "developable";
  Sphere sphere(subdivisions, developable);
  const tg::SolverOptions rigid = {.max_iterations = 4, .function_tolerance = 1e-4},
                          unrolled = {.method = tg::Method::lbfgs, .max_iterations = 50};
  tg::Solver solver(sphere.problem, developable ? unrolled : rigid);
  sphere.move_handle(0.5);
  const tg::Summary first = solver.solve();  // compiles and allocates

  std::vector<tg::draw::Mesh> pictures;
  std::vector<double> milliseconds;
  std::uint64_t compiled = 0;
  int limited = 0;      // frames for which the steps did not suffice
  double farthest = 0;  // maximum distance of the surface from its handle
  for (int frame = 0; frame < frames; ++frame) {
    if (frame > 0 && tg::Interrupts::came()) break;
    const auto begin = std::chrono::steady_clock::now();
    sphere.move_handle(static_cast<double>(frame) / (frames - 1));
    const tg::Summary summary = solver.solve();
    milliseconds.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
    compiled += summary.shaders_compiled;
    limited += summary.termination == tg::Termination::NO_CONVERGENCE;
    farthest = std::max(farthest, sphere.distance_to_handle());
    pictures.push_back(tg::draw::make_mesh(sphere.positions, sphere.mesh.triangles));
  }
  std::printf(
      "%zu vertices on %s (%s), %zu frames: p50 %.2f ms, p99 %.2f ms; %d ended at their limit of "
      "%d steps; %llu compiled, at most %.3f behind\n",
      sphere.mesh.vertex_count(), first.backend.c_str(), first.device.c_str(), milliseconds.size(),
      percentile(milliseconds, 0.5), percentile(milliseconds, 0.99), limited,
      developable ? unrolled.max_iterations : rigid.max_iterations,
      static_cast<unsigned long long>(compiled), farthest);
  const std::vector<std::string> captions(pictures.size(), "");
  sample::write_file(film, tg::draw::animated_png(
                               tg::draw::lay_out_frames(std::move(pictures), captions, 0.5), 40));
  return compiled == 0 && farthest < 0.2 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "handle [OUT.png] [SUBDIVISIONS] [FRAMES] [rigid|developable]",
                     program);
}
