// A closed chain of segments to points: which segment a point is nearest to changes while it
// moves, so every residual names all vertices, in a cost function written by hand.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "ceres/ceres.h"

namespace {

constexpr int kSegments = 12;

class PointToContour : public ceres::CostFunction {
 public:
  PointToContour(int num_segments, double x, double y) : num_segments_(num_segments), x_(x), y_(y) {
    set_num_residuals(2);
    mutable_parameter_block_sizes()->push_back(1);  // position on the contour
    for (int k = 0; k < num_segments; ++k) mutable_parameter_block_sizes()->push_back(2);
  }

  bool Evaluate(const double* const* x, double* residuals, double** jacobians) const override {
    const double at = x[0][0];
    const int first = ModuloNumSegments(static_cast<int>(std::floor(at)));
    const int second = ModuloNumSegments(first + 1);
    const double u = at - std::floor(at);
    for (int k = 0; k < 2; ++k)
      residuals[k] = (k == 0 ? x_ : y_) - ((1.0 - u) * x[1 + first][k] + u * x[1 + second][k]);
    if (jacobians == nullptr) return true;
    if (jacobians[0] != nullptr) {
      jacobians[0][0] = x[1 + first][0] - x[1 + second][0];
      jacobians[0][1] = x[1 + first][1] - x[1 + second][1];
    }
    for (int k = 0; k < num_segments_; ++k) {
      if (jacobians[k + 1] == nullptr) continue;
      const double slope = k == first ? -(1.0 - u) : k == second ? -u : 0.0;
      jacobians[k + 1][0] = jacobians[k + 1][3] = slope;
      jacobians[k + 1][1] = jacobians[k + 1][2] = 0.0;
    }
    return true;
  }

  static ceres::CostFunction* Create(int num_segments, double x, double y) {
    return new PointToContour(num_segments, x, y);
  }

 private:
  int ModuloNumSegments(int t) const { return (t % num_segments_ + num_segments_) % num_segments_; }

  const int num_segments_;
  const double x_, y_;
};

class Distance {
 public:
  explicit Distance(double weight) : weight_(weight) {}
  template <typename T>
  bool operator()(const T* x0, const T* x1, T* residuals) const {
    residuals[0] = weight_ * (x0[0] - x1[0]);
    residuals[1] = weight_ * (x0[1] - x1[1]);
    return true;
  }
  static ceres::CostFunction* Create(double weight) {
    return new ceres::AutoDiffCostFunction<Distance, 2, 2, 2>(new Distance(weight));
  }

 private:
  const double weight_;
};

}  // namespace

int main(int, char**) {
  std::vector<std::pair<double, double>> points;
  std::vector<double> where, vertices;
  for (int k = 0; k < 60; ++k) {
    const double a = 2 * M_PI * k / 60;
    points.emplace_back(2.1 * std::cos(a) + 0.01 * std::sin(9.0 * k), 1.3 * std::sin(a));
    where.push_back(kSegments * k / 60.0 + 0.05);
  }
  for (int k = 0; k < kSegments; ++k) {
    vertices.push_back(1.6 * std::cos(2 * M_PI * k / kSegments));
    vertices.push_back(1.6 * std::sin(2 * M_PI * k / kSegments));
  }

  ceres::Problem problem;
  std::vector<double*> blocks(1 + kSegments);
  for (int k = 0; k < kSegments; ++k) blocks[k + 1] = &vertices[2 * k];
  for (std::size_t k = 0; k < points.size(); ++k) {
    blocks[0] = &where[k];
    problem.AddResidualBlock(PointToContour::Create(kSegments, points[k].first, points[k].second),
                             nullptr, blocks);
  }
  for (int k = 0; k < kSegments; ++k)
    problem.AddResidualBlock(Distance::Create(std::sqrt(1e-4)), nullptr, &vertices[2 * k],
                             &vertices[2 * ((k + 1) % kSegments)]);

  ceres::Solver::Options options;
  options.max_num_iterations = 500;
  options.linear_solver_type = ceres::SPARSE_NORMAL_CHOLESKY;
  options.dynamic_sparsity = true;
  options.function_tolerance = 1e-12;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("usable %d\ncost %.5f\n", summary.IsSolutionUsable() ? 1 : 0, summary.final_cost);
  for (int k = 0; k < kSegments; ++k) std::printf("v%d %.3f\n", k, vertices[2 * k]);
  return summary.IsSolutionUsable() ? 0 : 1;
}
