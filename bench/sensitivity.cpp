// Time of a product with the derivative of a solution, in steps of its solve: arap on a mesh, or a
// scene of Bundle Adjustment in the Large.
//
//   bench_sensitivity FILE|--synthetic [cholesky|schur]
//
// θ is the targets of vertices, or where cameras see points. Times are medians: of taken steps, of
// products; the matrix is made once.
#include "../solver/sensitivity.hpp"
#include "../api/formats/bal.hpp"
#include "../api/formats/bundle_adjustment.hpp"
#include "../frontend/value/math.hpp"
#include "../ir/machine/stopwatch.hpp"
#include "../solver/solve.hpp"
#include "../tools/problems/arap.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd {
namespace {

constexpr int kSamples = 9;

struct Case {
  std::vector<double> first, second;
  Problem problem;
};

std::unique_ptr<Case> arap(const TriangleMesh& mesh) {
  auto made = std::make_unique<Case>();
  made->first = mesh.positions;
  made->second.assign(mesh.positions.size(), 0);
  const Parameters p = made->problem.add_parameters(made->first, 3);
  const Parameters a = made->problem.add_parameters(made->second, 3);
  problems::add_rigid_edges(made->problem, p, a, mesh);
  std::vector<double> targets;
  std::vector<std::uint32_t> indices;
  for (const problems::Pin& pin : problems::arap_pins(mesh)) {
    indices.insert(indices.end(), {pin.vertex, static_cast<std::uint32_t>(targets.size() / 3)});
    targets.insert(targets.end(), pin.target.begin(), pin.target.end());
  }
  const Data target = made->problem.add_data(targets, 3);
  made->problem.add_residuals(
      indices.size() / 2,
      [=](Element e) { return problems::kPinWeight * (e.vec3(p, 0) - target.vec3(e.index(1))); },
      {.indices = indices});
  return made;
}

std::unique_ptr<Case> bundle(const BundleScene& scene) {
  auto made = std::make_unique<Case>();
  made->first = scene.cameras;
  made->second = scene.points;
  const Parameters c = made->problem.add_parameters(made->first, 9);
  const Parameters p = made->problem.add_parameters(made->second, 3);
  std::vector<double> seen;
  std::vector<std::uint32_t> indices;
  for (const BundleScene::Observation& o : scene.observations) {
    indices.insert(indices.end(), {o.camera, o.point, static_cast<std::uint32_t>(seen.size() / 2)});
    seen.insert(seen.end(), o.seen.begin(), o.seen.end());
  }
  const Data image = made->problem.add_data(seen, 2);
  made->problem.add_residuals(scene.observations.size(),
                              [=](Element e) {
                                std::array<Value, 9> camera;
                                for (int k = 0; k < 9; ++k)
                                  camera[static_cast<std::size_t>(k)] = c(e.index(0), k);
                                const auto rows =
                                    reprojection(camera, e.vec3(p, 1), image.vec2(e.index(2)));
                                return std::vector<Value>(rows.begin(), rows.end());
                              },
                              {.indices = indices});
  made->problem.set_constant(c, 0, 0x3f);
  made->problem.set_constant(c, scene.camera_count() - 1, 1u << 3);
  return made;
}

std::unique_ptr<Case> read(const std::string& file) {
  if (file == "--synthetic") return arap(problems::icosphere(3));
  const bool is_mesh = file.ends_with(".obj") || file.ends_with(".ply") || file.ends_with(".off");
  return is_mesh ? arap(read_mesh(file)) : bundle(read_bal(file));
}

template <class F>
double seconds_of(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class F>
double median_of(const F& f) {
  std::vector<double> seconds;
  for (int k = 0; k < kSamples; ++k) seconds.push_back(seconds_of(f));
  return median(std::move(seconds));
}

int run(const std::string& file, LinearSolver solver) {
  const std::unique_ptr<Case> made = read(file);
  Problem& problem = made->problem;
  const Summary summary = solve(problem, {.backend = Backend::cpu,
                                          .linear_solver = solver,
                                          .max_iterations = 300,
                                          .function_tolerance = 1e-12});
  std::vector<double> steps;
  for (const IterationSummary& one : summary.iterations)
    if (one.iteration > 0 && one.step_is_successful) steps.push_back(one.iteration_time_in_seconds);
  const double step = median(steps);
  std::unique_ptr<Sensitivity> made_once;
  const double making = seconds_of([&] {
    made_once = std::make_unique<Sensitivity>(
        problem, SensitivityOptions{.solver = {.backend = Backend::cpu}});
  });
  const Eigen::VectorXd dx =
      Eigen::VectorXd::Ones(static_cast<Eigen::Index>(problem.parameter_count()));
  const Eigen::VectorXd d = Eigen::VectorXd::Ones(static_cast<Eigen::Index>(made_once->size()));
  const double vjp = median_of([&] { made_once->vjp(dx); });
  const double jvp = median_of([&] { made_once->jvp(d); });
  std::printf("%zu unknowns, %zu numbers of theta, %zu taken steps\n", problem.parameter_count(),
              made_once->size(), steps.size());
  std::printf("step %.1f ms, matrix %.1f ms (%.2f steps), vjp %.1f ms (%.2f), jvp %.1f ms (%.2f)\n",
              1e3 * step, 1e3 * making, making / step, 1e3 * vjp, vjp / step, 1e3 * jvp,
              jvp / step);
  return 0;
}

}  // namespace
}  // namespace topograd

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: bench_sensitivity FILE|--synthetic [cholesky|schur]\n", stderr);
    return 2;
  }
  try {
    return topograd::run(argv[1], topograd::parse_linear_solver(argc > 2 ? argv[2] : "cholesky"));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_sensitivity: %s\n", error.what());
    return 2;
  }
}
