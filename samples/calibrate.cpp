// Calibrates a lens by differentiating through bundle adjustment: focal length and distortion for
// which the distances of reconstructed points are those that were measured.
#include <topograd/solver/minimize_function.hpp>
#include <topograd/topograd.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

namespace tg = topograd;

namespace {

constexpr std::size_t kCameras = 4, kPoints = 24, kMeasured = 8;

// Projects a point that is given in the frame of the camera; T is Value or double.
template <class T, class V>
std::array<T, 2> image(const V& seen_from, const T& focal, const T& distortion) {
  const T x = seen_from.x / seen_from.z, y = seen_from.y / seen_from.z;
  const T s = x * x + y * y;
  return {focal * (1.0 + distortion * s) * x, focal * (1.0 + distortion * s) * y};
}

struct Point {
  double x, y, z;
};

// Cameras stand on an arc and look at points around (0, 0, 6). Their poses are rotations about y.
struct Rig {
  Rig() {
    for (std::size_t k = 0; k < kPoints; ++k) {
      const double t = static_cast<double>(k);
      points.insert(points.end(), {1.6 * std::sin(2.1 * t), 1.4 * std::cos(3.7 * t + 1),
                                   6 + 1.5 * std::sin(5.3 * t + 2)});
    }
    for (std::size_t c = 0; c < kCameras; ++c) {
      const double angle = 0.25 * (static_cast<double>(c) - 1.5);
      const double s = std::sin(angle), co = std::cos(angle);
      // R (X − (0, 0, 6)) + (0, 0, 6): turned around the middle of the points.
      poses.insert(poses.end(), {0, angle, 0, -6 * s, 0, 6 - 6 * co});
    }
  }

  // The cameras see the points through the right lens.
  std::vector<double> observe(double focal, double distortion) const {
    std::vector<double> seen;
    for (std::size_t c = 0; c < kCameras; ++c) {
      const double* pose = poses.data() + 6 * c;
      const double s = std::sin(pose[1]), co = std::cos(pose[1]);
      for (std::size_t k = 0; k < kPoints; ++k) {
        const double* at = points.data() + 3 * k;
        const Point turned{co * at[0] + s * at[2] + pose[3], at[1] + pose[4],
                           -s * at[0] + co * at[2] + pose[5]};
        const auto pixel = image(turned, focal, distortion);
        seen.insert(seen.end(), pixel.begin(), pixel.end());
      }
    }
    return seen;
  }

  double distance(std::size_t k) const {
    return std::hypot(points[3 * k] - points[3 * k + 3], points[3 * k + 1] - points[3 * k + 4],
                      points[3 * k + 2] - points[3 * k + 5]);
  }

  std::vector<double> poses, points;
};

}  // namespace

int main() {
  constexpr double kFocal = 820, kDistortion = -0.12;
  Rig rig;
  const std::vector<double> seen = rig.observe(kFocal, kDistortion);
  std::vector<double> measured;
  for (std::size_t k = 0; k < kMeasured; ++k) measured.push_back(rig.distance(k));

  // Bundle adjustment with a lens that is given. The first two cameras stay.
  tg::Problem problem;
  const tg::Parameters poses = problem.add_parameters(rig.poses, 6, "poses");
  const tg::Parameters points = problem.add_parameters(rig.points, 3, "points");
  const tg::Uniform focal = problem.add_uniform(700), distortion = problem.add_uniform(0);
  for (std::size_t c = 0; c < kCameras; ++c) {
    for (std::size_t k = 0; k < kPoints; ++k) {
      const tg::Vec3 turn{poses(c, 0), poses(c, 1), poses(c, 2)};
      const tg::Vec3 shift{poses(c, 3), poses(c, 4), poses(c, 5)};
      const auto pixel =
          image<tg::Value>(rotate(turn, points.vec3(k)) + shift, focal.value(), distortion.value());
      const std::size_t at = 2 * (c * kPoints + k);
      problem.add_residual({pixel[0] - seen[at], pixel[1] - seen[at + 1]}, {.label = "pixel"});
    }
  }
  problem.set_constant(poses, 0);
  problem.set_constant(poses, 1);

  int solves = 0;
  const tg::Objective loss{
      .size = 2, .evaluate = [&](std::span<const double> lens, std::span<double> gradient) {
        problem.set(focal, 1000 * lens[0]);
        problem.set(distortion, lens[1]);
        tg::solve(problem, {.backend = tg::Backend::cpu,
                            .linear_solver = tg::LinearSolver::cholesky,
                            .max_iterations = 200,
                            .function_tolerance = 1e-16,
                            .gradient_tolerance = 1e-12,
                            .parameter_tolerance = 1e-14});
        ++solves;
        double value = 0;
        std::vector<double> by_x(problem.parameter_count(), 0);  // of the loss, by x*
        for (std::size_t k = 0; k < kMeasured; ++k) {
          const double length = rig.distance(k), error = length - measured[k];
          value += error * error / 2;
          for (std::size_t c = 0; c < 3; ++c) {
            const double slope =
                error * (rig.points[3 * k + c] - rig.points[3 * k + 3 + c]) / length;
            by_x[points.offset() + 3 * k + c] += slope;
            by_x[points.offset() + 3 * k + 3 + c] -= slope;
          }
        }
        if (gradient.empty()) return value;
        const tg::Sensitivity sensitivity(problem, {focal, distortion});
        const Eigen::VectorXd by_lens = sensitivity.vjp(by_x);
        gradient[0] = 1000 * by_lens[0];
        gradient[1] = by_lens[1];
        return value;
      }};

  std::vector<double> lens = {0.7, 0};
  tg::Summary summary;
  tg::minimize_lbfgs(
      loss, lens, {.max_iterations = 60, .function_tolerance = 1e-14, .gradient_tolerance = 1e-10},
      summary);
  std::printf("focal length %.4f (right: %.1f), distortion %.6f (right: %.2f)\n", 1000 * lens[0],
              kFocal, lens[1], kDistortion);
  std::printf("loss %.3e -> %.3e, %d bundle adjustments\n", summary.initial_cost,
              summary.final_cost, solves);
  return std::abs(1000 * lens[0] / kFocal - 1) < 1e-4 && std::abs(lens[1] - kDistortion) < 1e-3 ? 0
                                                                                                : 1;
}
