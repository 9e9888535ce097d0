// Jacobians by finite differences.
#include "numeric_diff.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ceres::internal {
namespace {

using Eigen::VectorXd;

/// f along one coordinate, and its derivative by it.
class Coordinate {
 public:
  Coordinate(const ResidualFunction& f, std::vector<double*>& point, double& x,
             std::span<const double> residuals)
      : f_(f), point_(point), x_(x), at_(x), residuals_(residuals) {}

  bool Forward(double step, VectorXd& slope) {
    if (!Value(at_ + step, slope)) return false;
    for (Eigen::Index r = 0; r < slope.size(); ++r)
      slope[r] = (slope[r] - residuals_[static_cast<std::size_t>(r)]) / step;
    return true;
  }

  bool Central(double step, VectorXd& slope) {
    VectorXd below(slope.size());
    if (!Value(at_ + step, slope) || !Value(at_ - step, below)) return false;
    slope = (slope - below) / (2 * step);
    return true;
  }

  bool Ridders(double step, const NumericDiffOptions& options, VectorXd& slope);

 private:
  bool Value(double x, VectorXd& out) {
    x_ = x;
    const bool defined = f_(point_.data(), out.data());
    x_ = at_;
    return defined;
  }

  const ResidualFunction& f_;
  std::vector<double*>& point_;
  double& x_;
  double at_;
  std::span<const double> residuals_;
};

/// Rows of the tableau hold differences with one step, extrapolated 0, 1, ... times. `step` is that
/// of the middle row: the first one has to be large, so that rounding does not matter.
bool Coordinate::Ridders(double step, const NumericDiffOptions& options, VectorXd& slope) {
  const double shrink = options.ridders_step_shrink_factor;
  step *= std::pow(shrink, options.max_num_ridders_extrapolations / 2);
  double best_error = std::numeric_limits<double>::max();
  std::vector<VectorXd> last, row;
  // First steps that leave the domain are not counted, nor is the next one, which may end at its
  // edge.
  int beyond = 0;
  bool at_edge = false;
  for (int i = 0; i < std::max(options.max_num_ridders_extrapolations, 1); ++i, step /= shrink) {
    row.assign(1, VectorXd(slope.size()));
    if (!Central(step, row[0])) return false;
    if (i == 0) slope = row[0];
    if (i == 0 && (at_edge || !slope.allFinite()) &&
        beyond < options.max_num_ridders_extrapolations) {
      at_edge = !slope.allFinite();
      ++beyond;
      --i;
      continue;
    }
    double factor = shrink * shrink;
    for (int j = 1; j <= i; ++j, factor *= shrink * shrink) {
      const std::size_t k = static_cast<std::size_t>(j) - 1;
      row.push_back((row[k] * factor - last[k]) / (factor - 1));
      const double error = std::max((row[k + 1] - row[k]).norm(), (row[k + 1] - last[k]).norm());
      if (!(error <= best_error)) continue;  // nor NaN
      best_error = error;
      slope = row[k + 1];
    }
    if (best_error < options.ridders_epsilon) break;
    // Stops when rounding dominates: the highest order changes by more than the best error.
    if (i > 0 && (row.back() - last.back()).norm() >= 2 * best_error) break;
    last.swap(row);
  }
  return true;
}

}  // namespace

bool NumericJacobian(const ResidualFunction& f, NumericDiffMethodType method,
                     const NumericDiffOptions& options, std::span<const std::int32_t> sizes,
                     double const* const* parameters, std::span<const double> residuals,
                     double** jacobians) {
  const double least = std::sqrt(std::numeric_limits<double>::epsilon());
  std::vector<std::vector<double>> copies;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    copies.emplace_back(parameters[i], parameters[i] + sizes[i]);
  std::vector<double*> point;
  for (std::vector<double>& copy : copies) point.push_back(copy.data());
  VectorXd slope(static_cast<Eigen::Index>(residuals.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (jacobians[i] == nullptr) continue;
    for (std::size_t k = 0; k < copies[i].size(); ++k) {
      Coordinate x(f, point, copies[i][k], residuals);
      const double size = std::abs(copies[i][k]);
      const double step = std::max(least, options.relative_step_size * size);
      bool defined = false;
      switch (method) {
        case FORWARD: defined = x.Forward(step, slope); break;
        case CENTRAL: defined = x.Central(step, slope); break;
        case RIDDERS: {
          const double first = options.ridders_relative_initial_step_size;
          defined = x.Ridders(std::max({least, first, first * size}), options, slope);
          break;
        }
      }
      if (!defined) return false;
      for (std::size_t r = 0; r < residuals.size(); ++r)
        jacobians[i][r * copies[i].size() + k] = slope[static_cast<Eigen::Index>(r)];
    }
  }
  return true;
}

}  // namespace ceres::internal
