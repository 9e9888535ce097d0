// Covariances of the cameras of a BAL file, by Topograd and by Ceres' SPARSE_QR at the same point:
// seconds of each, and how far they are apart.
//
//   bench_covariance FILE|--synthetic [REPEATS]
//
// Exit status 1: they differ by more than 1e-8. --synthetic makes a small scene.
//
// The scene is solved first. Then the gauge is fixed by the first two cameras, which are held
// constant, and each point gets a prior of standard deviation 100 at its solution: the QR of Ceres
// refuses files with points at infinity otherwise.
#include "../solver/covariance.hpp"
#include "../api/formats/bal.hpp"
#include "../api/formats/bundle_adjustment.hpp"
#include "../ir/error.hpp"
#include "../solver/solve.hpp"
#include "../tools/problems/bundle.hpp"
#include "peer_functors.hpp"

#include <ceres/ceres.h>

#include <Eigen/Core>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

constexpr std::size_t kFixed = 2;
constexpr double kPrior = 1.0 / 100;
constexpr int kThreads = 2;

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class F>
double seconds_of(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Evaluation, factorisation and all pairs of cameras that are free.
class Ours {
 public:
  explicit Ours(const BundleScene& scene) : adjustment_(scene) {
    Problem& problem = adjustment_.problem();
    const Parameters& points = adjustment_.points();
    problem.add_residuals(scene.point_count(),
                          [&](Element e) {
                            const Vec3 apart =
                                e.vec3(points, 0) - Vec3(e.data(0), e.data(1), e.data(2));
                            return kPrior * apart;
                          },
                          {.indices = numbers(scene.point_count()), .data = scene.points});
    for (std::size_t c = 0; c < kFixed; ++c) problem.set_constant(adjustment_.cameras(), c);
    for (std::size_t c = kFixed; c < scene.camera_count(); ++c)
      blocks_.push_back({adjustment_.cameras(), c});
  }

  Matrix covariance() {
    CovarianceOptions options;
    options.solver.backend = Backend::cpu;
    options.solver.threads = kThreads;
    return Covariance(adjustment_.problem(), options).matrix(blocks_);
  }

 private:
  static std::vector<std::uint32_t> numbers(std::size_t count) {
    std::vector<std::uint32_t> out(count);
    for (std::size_t k = 0; k < count; ++k) out[k] = static_cast<std::uint32_t>(k);
    return out;
  }

  BundleAdjustment adjustment_;
  std::vector<ParameterBlock> blocks_;
};

class Theirs {
 public:
  explicit Theirs(BundleScene scene) : scene_(std::move(scene)) {
    for (const BundleScene::Observation& o : scene_.observations)
      problem_.AddResidualBlock(new ceres::AutoDiffCostFunction<bench::Observation, 2, 9, 3>(
                                    new bench::Observation{{o.seen[0], o.seen[1]}}),
                                nullptr, camera(o.camera), point(o.point));
    for (std::size_t k = 0; k < scene_.point_count(); ++k) {
      const double* at = point(k);
      problem_.AddResidualBlock(new ceres::AutoDiffCostFunction<bench::Target, 3, 3>(
                                    new bench::Target{kPrior, {at[0], at[1], at[2]}}),
                                nullptr, point(k));
    }
    for (std::size_t c = 0; c < scene_.camera_count(); ++c) {
      if (c < kFixed) {
        problem_.SetParameterBlockConstant(camera(c));
      } else {
        blocks_.push_back(camera(c));
      }
    }
  }

  /// Throws a text if the Jacobian lacks rank.
  Matrix covariance() {
    ceres::Covariance::Options options;
    options.algorithm_type = ceres::SPARSE_QR;
    options.num_threads = kThreads;
    ceres::Covariance covariance(options);
    if (!covariance.Compute(blocks_, &problem_))
      throw Error(ErrorCode::InvalidArgument, "Ceres takes the Jacobian for rank deficient");
    const auto size = static_cast<Eigen::Index>(9 * blocks_.size());
    Matrix out(size, size);
    covariance.GetCovarianceMatrix(blocks_, out.data());
    return out;
  }

 private:
  double* camera(std::size_t k) { return scene_.cameras.data() + 9 * k; }
  double* point(std::size_t k) { return scene_.points.data() + 3 * k; }

  BundleScene scene_;
  ceres::Problem problem_;
  std::vector<const double*> blocks_;
};

BundleScene synthetic() {
  return *problems::bundle(
      {.cameras = 12, .points = 150, .observations = 700, .noise = 0.5, .seed = 3});
}

BundleScene solved(const BundleScene& scene) {
  BundleAdjustment adjustment(scene);
  SolverOptions options;
  options.backend = Backend::cpu;
  const Summary summary = solve(adjustment.problem(), options);
  std::printf("solved: ½Σr² %.9g, %d steps\n", summary.final_cost, summary.num_iterations());
  return adjustment.scene();
}

int run(const std::string& path, int repeats) {
  const BundleScene scene = solved(path == "--synthetic" ? synthetic() : read_bal(path));
  Ours ours(scene);
  Theirs theirs(scene);
  Matrix a, b;
  double best_ours = HUGE_VAL, best_theirs = HUGE_VAL;
  for (int k = 0; k < repeats; ++k) {
    const double seconds_theirs = seconds_of([&] { b = theirs.covariance(); });
    const double seconds_ours = seconds_of([&] { a = ours.covariance(); });
    std::printf("run %d: Ceres SPARSE_QR %.3f s, Topograd %.3f s\n", k + 1, seconds_theirs,
                seconds_ours);
    best_ours = std::min(best_ours, seconds_ours);
    best_theirs = std::min(best_theirs, seconds_theirs);
  }
  // Entries in units of their standard deviations.
  const Eigen::VectorXd scale = b.diagonal().cwiseSqrt().cwiseInverse();
  const double apart = (scale.asDiagonal() * (a - b) * scale.asDiagonal()).cwiseAbs().maxCoeff();
  std::printf("%zu cameras, %zu points: shortest Ceres %.3f s, Topograd %.3f s, ratio %.1f\n",
              scene.camera_count(), scene.point_count(), best_theirs, best_ours,
              best_theirs / best_ours);
  std::printf("largest difference |a_ij - b_ij| / sqrt(b_ii b_jj): %.2g; ‖a - b‖ / ‖b‖: %.2g\n",
              apart, (a - b).norm() / b.norm());
  return apart <= 1e-8 ? 0 : 1;
}

}  // namespace
}  // namespace topograd

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_covariance FILE|--synthetic [REPEATS]\n");
    return 2;
  }
  try {
    return topograd::run(argv[1], argc > 2 ? std::max(std::atoi(argv[2]), 1) : 5);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
