// A robot's poses in the plane from odometry and one loop, with headings on a
// manifold.
#include <cmath>
#include <cstdio>
#include <vector>

#include "ceres/ceres.h"

namespace {

template <typename T>
T Wrapped(const T& angle) {
  const T turn(2.0 * M_PI);
  return angle - turn * ceres::floor((angle + T(M_PI)) / turn);
}

// Headings: sums stay within a turn.
class Heading {
 public:
  template <typename T>
  bool Plus(const T* x, const T* delta, T* sum) const {
    *sum = Wrapped(*x + *delta);
    return true;
  }
  template <typename T>
  bool Minus(const T* y, const T* x, T* difference) const {
    *difference = Wrapped(*y - *x);
    return true;
  }
  static ceres::Manifold* Create() { return new ceres::AutoDiffManifold<Heading, 1, 1>; }
};

struct Pose {
  double x = 0, y = 0, heading = 0;
};

// The second pose in the frame of the first, minus the measurement.
struct RelativePoseError {
  explicit RelativePoseError(const Pose& measured) : measured(measured) {}

  template <typename T>
  bool operator()(const T* const xa, const T* const ya, const T* const heading_a, const T* const xb,
                  const T* const yb, const T* const heading_b, T* residuals) const {
    const T c = cos(*heading_a), s = sin(*heading_a);
    const T dx = *xb - *xa, dy = *yb - *ya;
    residuals[0] = c * dx + s * dy - measured.x;
    residuals[1] = c * dy - s * dx - measured.y;
    residuals[2] = Wrapped(*heading_b - *heading_a - measured.heading);
    return true;
  }

  Pose measured;
};

// The length of the path over any number of poses.
struct WayLength {
  explicit WayLength(double measured) : measured(measured) {}

  template <typename T>
  bool operator()(T const* const* coordinates, T* residuals) const {
    T sum(0.0);
    for (int k = 0; k + 3 < 2 * count; k += 2) {
      const T dx = coordinates[k + 2][0] - coordinates[k][0];
      const T dy = coordinates[k + 3][0] - coordinates[k + 1][0];
      sum += sqrt(dx * dx + dy * dy);
    }
    residuals[0] = sum - measured;
    return true;
  }

  double measured;
  int count = 0;
};

}  // namespace

int main(int, char**) {
  // Along a regular dodecagon of side 1, and back to the start.
  const int n = 12;
  const double turn = 2 * M_PI / n;
  std::vector<Pose> poses(n);
  for (int k = 1; k < n; ++k) {
    poses[k].heading = Wrapped(turn * k + 0.05 * std::sin(3.0 * k));
    poses[k].x = poses[k - 1].x + std::cos(turn * (k - 1)) + 0.1 * std::sin(5.0 * k);
    poses[k].y = poses[k - 1].y + std::sin(turn * (k - 1)) + 0.1 * std::cos(4.0 * k);
  }
  ceres::Problem problem;
  Pose side;
  side.x = 1;
  side.heading = turn;
  for (int k = 0; k < n; ++k) {
    Pose& a = poses[k];
    Pose& b = poses[(k + 1) % n];
    problem.AddResidualBlock(
        new ceres::AutoDiffCostFunction<RelativePoseError, 3, 1, 1, 1, 1, 1, 1>(
            new RelativePoseError(side)),
        nullptr, &a.x, &a.y, &a.heading, &b.x, &b.y, &b.heading);
  }
  WayLength* way = new WayLength(n - 1);
  auto* cost = new ceres::DynamicAutoDiffCostFunction<WayLength, 4>(way);
  std::vector<double*> coordinates;
  for (Pose& pose : poses) {
    coordinates.push_back(&pose.x);
    coordinates.push_back(&pose.y);
    cost->AddParameterBlock(1);
    cost->AddParameterBlock(1);
    ++way->count;
  }
  cost->SetNumResiduals(1);
  problem.AddResidualBlock(cost, nullptr, coordinates);
  for (Pose& pose : poses) problem.SetManifold(&pose.heading, Heading::Create());
  problem.SetParameterBlockConstant(&poses[0].x);
  problem.SetParameterBlockConstant(&poses[0].y);
  problem.SetParameterBlockConstant(&poses[0].heading);

  ceres::Solver::Options options;
  options.function_tolerance = 1e-15;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  double worst = 0;
  double x = 0, y = 0;
  for (int k = 0; k < n; ++k) {
    worst = std::max(worst, std::hypot(poses[k].x - x, poses[k].y - y));
    worst = std::max(worst, std::abs(Wrapped(poses[k].heading - turn * k)));
    x += std::cos(turn * k);
    y += std::sin(turn * k);
  }
  std::printf("initial %.10g\nblocks %d\nreduced %d\n", summary.initial_cost,
              summary.num_parameter_blocks, summary.num_parameter_blocks_reduced);
  return summary.IsSolutionUsable() && worst < 1e-6 ? 0 : 1;
}
