// Inverse kinematics of many targets: solved side by side, and by Ceres in a loop, from the same
// starts.
//
//   bench_ik ROBOT.urdf [TARGETS [THREADS [cpu|vulkan [f64|mixed]]]]
//
// Topograd's times are those of one call after the other, of which the first also traces and
// compiles.
#include "../tools/problems/inverse_kinematics.hpp"

#include "../api/formats/packed_text.hpp"

#include <ceres/ceres.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace topograd::bench {
namespace {

using problems::Chain;
using problems::InverseKinematics;
using problems::InverseKinematicsOptions;
using problems::Joint;
using problems::PoseNumbers;
using problems::Targets;

constexpr int kJoints = 7;

/// The rows that inverse_kinematics() minimises.
struct PoseError {
  const Chain* chain;
  const double* target;
  double per_meter, per_radian;

  template <class T>
  bool operator()(const T* q, T* r) const {
    const auto known = [](double c) { return c; };
    const problems::ForwardKinematics<T, decltype(known)> forward(*chain, known);
    const problems::Frame<T> tip = forward(q);
    const double turn = per_radian / std::numbers::sqrt2;
    for (std::size_t k = 0; k < 9; ++k) r[k] = turn * (forward.value(tip.rotation[k]) - target[k]);
    for (std::size_t k = 0; k < 3; ++k)
      r[9 + k] = per_meter * (forward.value(tip.position[k]) - target[9 + k]);
    return true;
  }
};

/// The largest error of position and rotation, in units of their tolerances.
double error_of(const Chain& chain, const double* q, const double* target,
                const InverseKinematicsOptions& options) {
  const PoseNumbers pose = problems::tip_pose(chain, q);
  double turned = 0;
  for (std::size_t k = 0; k < 9; ++k) turned += std::pow(pose[k] - target[k], 2);
  const double moved =
      std::hypot(pose[9] - target[9], pose[10] - target[10], pose[11] - target[11]);
  return std::max(moved / options.position_tolerance,
                  2 * std::asin(std::min(1.0, std::sqrt(turned / 8))) / options.rotation_tolerance);
}

struct Loop {
  std::size_t solved = 0, solves = 0;
  double seconds = 0;
};

Loop with_ceres(const Chain& chain, const Targets& targets, const InverseKinematicsOptions& options,
                ceres::LinearSolverType linear) {
  const auto begin = std::chrono::steady_clock::now();
  Loop out;
  const std::vector<const Joint*> joints = chain.moving();
  ceres::Solver::Options settings;
  settings.max_num_iterations = options.solver.max_iterations;
  settings.linear_solver_type = linear;
  settings.logging_type = ceres::SILENT;
  settings.num_threads = 1;
  for (std::size_t t = 0; t < targets.count(); ++t) {
    const double* const target = targets.poses.data() + 12 * t;
    for (int s = 0; s < options.starts; ++s) {
      std::vector<double> q =
          problems::ik_start(chain, t, static_cast<std::size_t>(s), options.seed);
      ceres::Problem problem;
      problem.AddResidualBlock(
          new ceres::AutoDiffCostFunction<PoseError, 12, kJoints>(new PoseError{
              &chain, target, 1 / options.position_tolerance, 1 / options.rotation_tolerance}),
          nullptr, q.data());
      for (int k = 0; k < kJoints; ++k) {
        problem.SetParameterLowerBound(q.data(), k, joints[static_cast<std::size_t>(k)]->lower);
        problem.SetParameterUpperBound(q.data(), k, joints[static_cast<std::size_t>(k)]->upper);
      }
      ceres::Solver::Summary summary;
      ceres::Solve(settings, &problem, &summary);
      ++out.solves;
      if (error_of(chain, q.data(), target, options) > 1) continue;
      ++out.solved;
      break;
    }
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

void print(const char* what, std::size_t solved, std::size_t count, std::size_t solves,
           double seconds) {
  std::printf("%-28s %8.4f s  %7.2f us a target  %zu of %zu solved (%.2f %%), %zu solves\n", what,
              seconds, 1e6 * seconds / static_cast<double>(count), solved, count,
              100 * static_cast<double>(solved) / static_cast<double>(count), solves);
  std::fflush(stdout);
}

void run(const std::string& file, std::size_t count, int threads, Backend backend,
         Precision precision) {
  const Chain chain = problems::read_chain(read_packed_text(file), file, "");
  if (chain.unknowns() != kJoints) throw std::runtime_error("expected a robot with seven joints");
  std::mt19937_64 random(1);
  Targets targets;
  for (std::size_t t = 0; t < count; ++t) {
    std::vector<double> q;
    for (const Joint* joint : chain.moving())
      q.push_back(std::uniform_real_distribution<double>(joint->lower, joint->upper)(random));
    targets.add(problems::tip_pose(chain, q.data()));
  }
  InverseKinematicsOptions options;
  options.solver.threads = threads;
  options.solver.backend = backend;
  options.solver.precision = precision;
  problems::InverseKinematicsSolver solver(chain, options);
  double best = 1e30;
  for (int repeat = 0; repeat < 6; ++repeat) {
    const InverseKinematics all = solver.solve(targets);
    best = std::min(best, all.seconds);
    print("Topograd", all.solved_count(), count, all.solves, all.seconds);
  }
  for (const auto& [name, linear] :
       {std::pair{"Ceres, DENSE_QR", ceres::DENSE_QR},
        std::pair{"Ceres, DENSE_NORMAL_CHOLESKY", ceres::DENSE_NORMAL_CHOLESKY}}) {
    const Loop loop = with_ceres(chain, targets, options, linear);
    print(name, loop.solved, count, loop.solves, loop.seconds);
    std::printf("  ratio %.1f\n", loop.seconds / best);
  }
}

}  // namespace
}  // namespace topograd::bench

int main(int argc, char** argv) try {
  if (argc < 2)
    throw std::runtime_error(
        "usage: bench_ik ROBOT.urdf [TARGETS [THREADS [cpu|vulkan [f64|mixed]]]]");
  topograd::bench::run(
      argv[1], argc > 2 ? std::stoul(argv[2]) : 10000, argc > 3 ? std::stoi(argv[3]) : 0,
      topograd::parse_enum<topograd::Backend>("backend", argc > 4 ? argv[4] : "cpu"),
      topograd::parse_enum<topograd::Precision>("precision", argc > 5 ? argv[5] : "f64"));
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_ik: %s\n", error.what());
  return 2;
}
