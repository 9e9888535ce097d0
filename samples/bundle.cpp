// Bundle adjustment: cameras and points from observations, some of which are wrong.
//
//   bundle [OUT.csv]     true, first and last position of each point
#include <topograd/topograd.hpp>

#include "sample.hpp"

#include <cmath>
#include <cstdio>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace tg = topograd;

namespace {

constexpr std::size_t kCameras = 12, kPoints = 200;
constexpr double kFocal = 800;  // pixels

// A pinhole camera of six numbers: axis times angle, translation; it looks down its z axis.
tg::Vec2 project(const tg::Vec3& turn, const tg::Vec3& shift, const tg::Vec3& point) {
  const tg::Vec3 p = rotate(turn, point) + shift;
  return {kFocal * p.x / p.z, kFocal * p.y / p.z};
}

/// Cameras on an arc around points in a ball.
struct Scene {
  std::vector<double> turns, shifts, points;
};

Scene make_scene(std::mt19937& random) {
  std::normal_distribution<double> normal;
  Scene scene;
  for (std::size_t c = 0; c < kCameras; ++c) {
    const double turn = 0.1 * static_cast<double>(c) - 0.5;
    scene.turns.insert(scene.turns.end(), {0.0, turn, 0.0});
    scene.shifts.insert(scene.shifts.end(), {0.0, 0.0, 6.0});
  }
  for (std::size_t k = 0; k < 3 * kPoints; ++k) scene.points.push_back(0.6 * normal(random));
  return scene;
}

}  // namespace

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  const std::string out = arguments.text();
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  const Scene truth = make_scene(random);
  Scene x = truth;  // the start is a little off, except for two cameras, which fix the frame
  for (double& p : x.points) p += 0.05 * normal(random);
  for (std::size_t k = 6; k < x.turns.size(); ++k) x.turns[k] += 0.02 * normal(random);
  for (std::size_t k = 6; k < x.shifts.size(); ++k) x.shifts[k] += 0.05 * normal(random);

  const std::vector<double> first = x.points;

  // The observations use the same expression, evaluated on numbers.
  std::vector<double> all = truth.turns;
  all.insert(all.end(), truth.shifts.begin(), truth.shifts.end());
  all.insert(all.end(), truth.points.begin(), truth.points.end());

  tg::Problem problem;
  const tg::Parameters turns = problem.add_parameters(x.turns, 3);
  const tg::Parameters shifts = problem.add_parameters(x.shifts, 3);
  const tg::Parameters points = problem.add_parameters(x.points, 3);
  const tg::Data seen = problem.add_data(std::vector<double>(2 * kCameras * kPoints), 2);
  for (std::size_t c = 0; c < kCameras; ++c) {
    for (std::size_t j = 0; j < kPoints; ++j) {
      problem.add_residual(
          project(turns.vec3(c), shifts.vec3(c), points.vec3(j)) - seen.vec2(c * kPoints + j),
          {.loss = tg::huber(1.0)});
    }
  }
  const Eigen::VectorXd images =
      tg::Evaluator(problem, {.backend = tg::Backend::cpu}, tg::Losses::ignored).residuals(all);
  std::vector<double> observations(images.begin(), images.end());
  for (std::size_t k = 0; k < observations.size(); ++k)
    observations[k] += k % 49 == 0 ? 100 : 0.3 * normal(random);  // one observation in 25 is wrong
  problem.set(seen, observations);
  for (std::size_t c = 0; c < 2; ++c) {
    problem.set_constant(turns, c);
    problem.set_constant(shifts, c);
  }

  const tg::Summary summary = tg::solve(problem, {.function_tolerance = 1e-10});
  std::printf("%s\nlinear solver: %s\n", summary.brief_report().c_str(),
              summary.linear_solver_note.c_str());
  double sum = 0;
  for (std::size_t k = 0; k < x.points.size(); ++k)
    sum += std::pow(x.points[k] - truth.points[k], 2);
  const double error = std::sqrt(sum / kPoints);
  std::printf("distance of a point to where it was: %.4f (at the start 0.087)\n", error);
  if (!out.empty()) {
    std::ostringstream file;
    file << "true_x,true_y,start_x,start_y,end_x,end_y\n";
    for (std::size_t k = 0; k < x.points.size(); k += 3) {
      file << truth.points[k] << ',' << truth.points[k + 1] << ',' << first[k] << ','
           << first[k + 1] << ',' << x.points[k] << ',' << x.points[k + 1] << '\n';
    }
    sample::write_file(out, file.view());
  }
  return summary.is_solution_usable() && error < 0.01 ? 0 : 1;
}

int main(int argc, char** argv) { return sample::run(argc, argv, "bundle [OUT.csv]", program); }
