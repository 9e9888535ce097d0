// Bundle adjustment of a synthetic scene: Snavely's camera by axis and angle,
// and by quaternion.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "ceres/ceres.h"
#include "ceres/rotation.h"

namespace {

// Rotated and translated point to pixel, with focal length and two radial
// distortions.
template <typename T>
void Project(const T* p, const T& focal, const T& l1, const T& l2, T* pixel) {
  const T x = -p[0] / p[2];
  const T y = -p[1] / p[2];
  const T r2 = x * x + y * y;
  const T distortion = 1.0 + r2 * (l1 + l2 * r2);
  pixel[0] = focal * distortion * x;
  pixel[1] = focal * distortion * y;
}

struct ReprojectionError {
  ReprojectionError(double observed_x, double observed_y)
      : observed_x(observed_x), observed_y(observed_y) {}

  template <typename T>
  bool operator()(const T* const camera, const T* const point, T* residuals) const {
    T p[3];
    ceres::AngleAxisRotatePoint(camera, point, p);
    for (int k = 0; k < 3; ++k) p[k] += camera[3 + k];
    T pixel[2];
    Project(p, camera[6], camera[7], camera[8], pixel);
    residuals[0] = pixel[0] - observed_x;
    residuals[1] = pixel[1] - observed_y;
    return true;
  }

  static ceres::CostFunction* Create(const double x, const double y) {
    return new ceres::AutoDiffCostFunction<ReprojectionError, 2, 9, 3>(new ReprojectionError(x, y));
  }

  double observed_x;
  double observed_y;
};

// The same with the rotation as the first four of ten numbers.
struct QuaternionReprojectionError {
  QuaternionReprojectionError(double observed_x, double observed_y)
      : observed_x(observed_x), observed_y(observed_y) {}

  template <typename T>
  bool operator()(const T* const camera, const T* const point, T* residuals) const {
    T p[3];
    ceres::QuaternionRotatePoint(camera, point, p);
    for (int k = 0; k < 3; ++k) p[k] += camera[4 + k];
    T pixel[2];
    Project(p, camera[7], camera[8], camera[9], pixel);
    residuals[0] = pixel[0] - observed_x;
    residuals[1] = pixel[1] - observed_y;
    return true;
  }

  double observed_x;
  double observed_y;
};

struct Scene {
  std::vector<double> cameras, points, pixels;  // 9, 3 and 2 numbers each
  static constexpr int kCameras = 5, kPoints = 40;
};

Scene MakeScene() {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> spread(-1, 1);
  Scene scene;
  for (int k = 0; k < 3 * Scene::kPoints; ++k) scene.points.push_back(spread(random));
  for (int c = 0; c < Scene::kCameras; ++c) {
    const double camera[9] = {0.1 * c,      0.2 - 0.1 * c, 0.05 * c, 0.2 * c, -0.1 * c,
                              -5 - 0.1 * c, 500,           -0.02,    0.001};
    scene.cameras.insert(scene.cameras.end(), camera, camera + 9);
  }
  for (int c = 0; c < Scene::kCameras; ++c) {
    for (int k = 0; k < Scene::kPoints; ++k) {
      const double* camera = scene.cameras.data() + 9 * c;
      double p[3], pixel[2];
      ceres::AngleAxisRotatePoint(camera, scene.points.data() + 3 * k, p);
      for (int i = 0; i < 3; ++i) p[i] += camera[3 + i];
      Project(p, camera[6], camera[7], camera[8], pixel);
      scene.pixels.insert(scene.pixels.end(), pixel, pixel + 2);
    }
  }
  return scene;
}

void Perturb(std::vector<double>& values, double size, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> noise(-size, size);
  for (double& value : values) value += noise(random);
}

bool Report(const char* name, const ceres::Solver::Summary& summary) {
  std::printf("%s.initial %.10g\n", name, summary.initial_cost);
  return summary.IsSolutionUsable() && summary.final_cost < 1e-12 * summary.initial_cost;
}

ceres::Solver::Options Options() {
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_SCHUR;
  options.max_num_iterations = 100;
  options.function_tolerance = 1e-16;
  options.gradient_tolerance = 1e-16;
  return options;
}

void AddResiduals(Scene& scene, ceres::Problem& problem) {
  for (int c = 0; c < Scene::kCameras; ++c)
    for (int k = 0; k < Scene::kPoints; ++k) {
      const double* pixel = scene.pixels.data() + 2 * (c * Scene::kPoints + k);
      problem.AddResidualBlock(ReprojectionError::Create(pixel[0], pixel[1]), nullptr,
                               scene.cameras.data() + 9 * c, scene.points.data() + 3 * k);
    }
}

// Number of conjugate gradient iterations of each step.
bool SolveIteratively(Scene scene, const char* name, ceres::LinearSolverType type,
                      ceres::PreconditionerType preconditioner) {
  Perturb(scene.points, 0.05, 1);
  Perturb(scene.cameras, 0.005, 2);
  ceres::Problem problem;
  AddResiduals(scene, problem);
  ceres::Solver::Options options = Options();
  options.linear_solver_type = type;
  options.preconditioner_type = preconditioner;
  options.max_num_iterations = 4;
  options.eta = 0.03;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  for (const ceres::IterationSummary& step : summary.iterations)
    std::printf("%s.iterations_%d %d\n", name, step.iteration, step.linear_solver_iterations);
  return summary.IsSolutionUsable() && summary.final_cost < 0.01 * summary.initial_cost;
}

bool SolveByAngleAxis(Scene scene) {
  Perturb(scene.points, 0.05, 1);
  Perturb(scene.cameras, 0.005, 2);
  ceres::Problem problem;
  AddResiduals(scene, problem);
  ceres::Solver::Summary summary;
  ceres::Solve(Options(), &problem, &summary);
  return Report("angle_axis", summary) && problem.NumResiduals() == 2 * 5 * 40 &&
         problem.NumParameters() == 9 * 5 + 3 * 40;
}

bool SolveByQuaternion(Scene scene) {
  std::vector<double> cameras(10 * Scene::kCameras);
  for (int c = 0; c < Scene::kCameras; ++c) {
    ceres::AngleAxisToQuaternion(scene.cameras.data() + 9 * c, cameras.data() + 10 * c);
    for (int k = 3; k < 9; ++k) cameras[10 * c + k + 1] = scene.cameras[9 * c + k];
  }
  Perturb(scene.points, 0.05, 1);
  Perturb(cameras, 0.005, 2);
  ceres::Problem problem;
  for (int c = 0; c < Scene::kCameras; ++c)
    for (int k = 0; k < Scene::kPoints; ++k) {
      const double* pixel = scene.pixels.data() + 2 * (c * Scene::kPoints + k);
      ceres::CostFunction* cost =
          new ceres::AutoDiffCostFunction<QuaternionReprojectionError, 2, 10, 3>(
              new QuaternionReprojectionError(pixel[0], pixel[1]));
      problem.AddResidualBlock(cost, nullptr, cameras.data() + 10 * c, scene.points.data() + 3 * k);
    }
  for (int c = 0; c < Scene::kCameras; ++c) {
    double* q = cameras.data() + 10 * c;
    const double length = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int k = 0; k < 4; ++k) q[k] /= length;
    problem.SetManifold(
        q, new ceres::ProductManifold<ceres::QuaternionManifold, ceres::EuclideanManifold<6>>{});
  }
  ceres::Solver::Summary summary;
  ceres::Solve(Options(), &problem, &summary);
  double worst = 0;  // distance of the quaternions from length 1
  for (int c = 0; c < Scene::kCameras; ++c) {
    const double* q = cameras.data() + 10 * c;
    worst = std::max(worst, std::abs(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3] - 1));
  }
  return Report("quaternion", summary) && worst < 1e-12 &&
         summary.num_effective_parameters_reduced == 9 * 5 + 3 * 40;
}

}  // namespace

int main(int, char**) {
  const bool angle_axis = SolveByAngleAxis(MakeScene());
  const bool quaternion = SolveByQuaternion(MakeScene());
  const bool cgnr = SolveIteratively(MakeScene(), "cgnr", ceres::CGNR, ceres::JACOBI);
  const bool schur =
      SolveIteratively(MakeScene(), "schur", ceres::ITERATIVE_SCHUR, ceres::SCHUR_JACOBI);
  return angle_axis && quaternion && cgnr && schur ? 0 : 1;
}
