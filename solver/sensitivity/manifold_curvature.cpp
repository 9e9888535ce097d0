// Second differences of Plus.
#include "manifold_curvature.hpp"

#include <array>
#include <limits>
#include <vector>

namespace topograd {
namespace {

/// Length of the longest differences, in tangent coordinates.
constexpr double kLongest = 0.04;

/// gᵀ(x ⊞ δ), and its second derivatives along directions.
class AlongDirections {
 public:
  AlongDirections(const Manifold& manifold, const double* x, const double* gradient)
      : manifold_(manifold),
        x_(x),
        gradient_(gradient),
        moved_(static_cast<std::size_t>(manifold.ambient_size())),
        delta_(static_cast<std::size_t>(manifold.tangent_size())) {}

  /// Differences of three lengths, of which each is half the one before; their errors are even
  /// powers of the length (Richardson).
  double second(const Eigen::VectorXd& direction) {
    std::array<double, 3> found{};
    double length = kLongest;
    for (double& difference : found) {
      difference = (value(direction, length) + value(direction, -length)) / (length * length);
      length /= 2;
    }
    const double first = (4 * found[1] - found[0]) / 3, last = (4 * found[2] - found[1]) / 3;
    return (16 * last - first) / 15;
  }

 private:
  /// gᵀ((x ⊞ length direction) − x).
  double value(const Eigen::VectorXd& direction, double length) {
    for (std::size_t k = 0; k < delta_.size(); ++k)
      delta_[k] = length * direction[static_cast<Eigen::Index>(k)];
    if (!manifold_.plus(x_, delta_.data(), moved_.data()))
      return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    for (std::size_t k = 0; k < moved_.size(); ++k) sum += gradient_[k] * (moved_[k] - x_[k]);
    return sum;
  }

  const Manifold& manifold_;
  const double* x_;
  const double* gradient_;
  std::vector<double> moved_, delta_;
};

}  // namespace

Eigen::MatrixXd manifold_curvature(const Manifold& manifold, const double* x,
                                   const double* gradient) {
  const Eigen::Index t = manifold.tangent_size();
  AlongDirections along(manifold, x, gradient);
  Eigen::MatrixXd out(t, t);
  for (Eigen::Index i = 0; i < t; ++i) out(i, i) = along.second(Eigen::VectorXd::Unit(t, i));
  for (Eigen::Index i = 0; i < t; ++i)
    for (Eigen::Index j = 0; j < i; ++j)
      out(i, j) = out(j, i) =
          (along.second(Eigen::VectorXd::Unit(t, i) + Eigen::VectorXd::Unit(t, j)) - out(i, i) -
           out(j, j)) /
          2;
  return out;
}

}  // namespace topograd
