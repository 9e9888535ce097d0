// Bundle adjustment as a program for many options writes it: orderings, names of options, manifolds
// of parts of blocks, shared intrinsics, rotations as matrices.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "ceres/ceres.h"
#include "ceres/rotation.h"

namespace {

struct Reprojection {
  Reprojection(double x, double y) : x(x), y(y) {}

  template <typename T>
  bool operator()(const T* const intrinsics, const T* const R_t, const T* const X,
                  T* residuals) const {
    const T& focal_length = intrinsics[0];
    const T& k1 = intrinsics[1];
    T R[9];
    ceres::AngleAxisToRotationMatrix(R_t, ceres::ColumnMajorAdapter3x3(R));
    T p[3];
    for (int i = 0; i < 3; ++i) {
      p[i] = R_t[3 + i];
      for (int k = 0; k < 3; ++k) p[i] += R[3 * k + i] * X[k];
    }
    if (p[2] < T(1e-6)) return false;  // behind the camera
    const T xn = p[0] / p[2], yn = p[1] / p[2], r2 = xn * xn + yn * yn;
    const T distortion = T(1.0) + k1 * r2;
    residuals[0] = focal_length * distortion * xn - x;
    residuals[1] = focal_length * distortion * yn - y;
    return true;
  }

  const double x, y;
};

}  // namespace

int main(int, char**) {
  const int kCameras = 5, kPoints = 30;
  std::vector<double> intrinsics = {520, -0.02}, cameras, points, observed;
  for (int c = 0; c < kCameras; ++c)
    for (const double v : {0.02 * c, -0.1 * c + 0.2, 0.03, 0.5 * c - 1.0, 0.1 * c, 6.0})
      cameras.push_back(v);
  for (int k = 0; k < kPoints; ++k)
    for (int i = 0; i < 3; ++i) points.push_back(std::sin(1.7 * k * (i + 1) + i));
  for (int c = 0; c < kCameras; ++c) {
    for (int k = 0; k < kPoints; ++k) {
      double r[2];
      Reprojection(0, 0)(intrinsics.data(), &cameras[6 * c], &points[3 * k], r);
      observed.insert(observed.end(), r, r + 2);
    }
  }
  intrinsics = {500, 0};
  for (std::size_t k = 6; k < cameras.size(); ++k) cameras[k] += 0.01 * std::sin(3.0 * k);
  for (std::size_t k = 0; k < points.size(); ++k) points[k] += 0.03 * std::cos(5.0 * k);

  ceres::Problem::Options problem_options;
  ceres::Problem problem(problem_options);
  auto* ordering = new ceres::ParameterBlockOrdering;
  for (int c = 0; c < kCameras; ++c) {
    for (int k = 0; k < kPoints; ++k) {
      const double* o = &observed[2 * (c * kPoints + k)];
      problem.AddResidualBlock(
          new ceres::AutoDiffCostFunction<Reprojection, 2, 2, 6, 3>(new Reprojection(o[0], o[1])),
          new ceres::HuberLoss(1.0), intrinsics.data(), &cameras[6 * c], &points[3 * k]);
    }
  }
  for (int k = 0; k < kPoints; ++k) ordering->AddElementToGroup(&points[3 * k], 0);
  for (int c = 0; c < kCameras; ++c) ordering->AddElementToGroup(&cameras[6 * c], 1);
  ordering->AddElementToGroup(intrinsics.data(), 1);
  problem.SetParameterBlockConstant(cameras.data());
  problem.SetManifold(&cameras[6], new ceres::SubsetManifold(6, {3}));  // the scale

  ceres::Solver::Options options;
  options.linear_solver_ordering.reset(ordering);
  if (!ceres::StringToLinearSolverType("dense_schur", &options.linear_solver_type)) return 1;
  if (!ceres::StringToSparseLinearAlgebraLibraryType("eigen_sparse",
                                                     &options.sparse_linear_algebra_library_type))
    return 1;
  if (!ceres::StringToTrustRegionStrategyType("levenberg_marquardt",
                                              &options.trust_region_strategy_type))
    return 1;
  options.use_inner_iterations = false;
  options.use_explicit_schur_complement = false;
  options.max_num_iterations = 100;
  options.num_threads = 1;
  options.eta = 1e-2;
  options.gradient_tolerance = 1e-16;
  options.function_tolerance = 1e-16;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("usable %d\n", summary.IsSolutionUsable() ? 1 : 0);
  std::printf("focal %.5f\nk1 %.6f\n", intrinsics[0], intrinsics[1]);
  for (int c = 0; c < kCameras; ++c) std::printf("camera%d %.6f\n", c, cameras[6 * c + 1]);
  std::printf("blocks %d %d\n", problem.NumParameterBlocks(), problem.NumResidualBlocks());
  return std::abs(intrinsics[0] - 520) < 1e-3 ? 0 : 1;
}
