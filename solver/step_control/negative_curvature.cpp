// The least eigenvalue of a Hessian by Jacobi's rotations, and the search along its direction.
#include "negative_curvature.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace topograd {
namespace {

// Share of the largest entry of a row, in units of rounding, above which an eigenvalue is not zero.
constexpr double kLeastCurvature = 64;
// Sweeps over rows that settle their units, each of which halves the digits that are off, and
// sweeps of rotations, of which fewer than ten are needed.
constexpr int kUnitSweeps = 40, kRotationSweeps = 30;
constexpr int kMostDoublings = 100;

/// u with max_j u_i |H_ij| u_j = 1 in each row that is not zero; 0 in the others.
Eigen::VectorXd row_units(const Eigen::MatrixXd& hessian) {
  const Eigen::Index n = hessian.rows();
  Eigen::VectorXd units = Eigen::VectorXd::Ones(n), next(n);
  for (int sweep = 0; sweep < kUnitSweeps; ++sweep) {
    for (Eigen::Index i = 0; i < n; ++i) {
      double largest = 0;
      for (Eigen::Index j = 0; j < n; ++j)
        largest = std::max(largest, units[i] * std::abs(hessian(i, j)) * units[j]);
      next[i] = largest > 0 ? units[i] / std::sqrt(largest) : 0;
    }
    units = next;
  }
  return units;
}

/// Makes a symmetric matrix diagonal by Jacobi's rotations; returns the eigenvectors as columns.
Eigen::MatrixXd diagonalise(Eigen::MatrixXd& a) {
  const Eigen::Index n = a.rows();
  Eigen::MatrixXd vectors = Eigen::MatrixXd::Identity(n, n);
  // The rows or columns p and q of m, turned.
  const auto turn = [n](Eigen::MatrixXd& m, bool rows, Eigen::Index p, Eigen::Index q, double c,
                        double s) {
    for (Eigen::Index k = 0; k < n; ++k) {
      double& first = rows ? m(p, k) : m(k, p);
      double& second = rows ? m(q, k) : m(k, q);
      const double before = first;
      first = c * before - s * second;
      second = s * before + c * second;
    }
  };
  for (int sweep = 0; sweep < kRotationSweeps; ++sweep) {
    bool settled = true;
    for (Eigen::Index p = 0; p < n; ++p) {
      for (Eigen::Index q = p + 1; q < n; ++q) {
        if (std::abs(a(p, q)) <= std::numeric_limits<double>::epsilon()) continue;
        settled = false;
        const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t = std::copysign(1 / (std::abs(theta) + std::sqrt(theta * theta + 1)), theta);
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        turn(a, true, p, q, c, s);
        turn(a, false, p, q, c, s);
        turn(vectors, false, p, q, c, s);
      }
    }
    if (settled) break;
  }
  return vectors;
}

}  // namespace

std::optional<NegativeCurvature> negative_curvature(const QuadraticModel& at, double unit) {
  if (!at.hessian.allFinite() || at.hessian.rows() == 0) return std::nullopt;
  const Eigen::VectorXd units = row_units(at.hessian);
  if (!units.allFinite()) return std::nullopt;
  Eigen::MatrixXd scaled = units.asDiagonal() * at.hessian * units.asDiagonal();
  const Eigen::MatrixXd vectors = diagonalise(scaled);
  Eigen::Index least = 0;
  for (Eigen::Index k = 1; k < scaled.rows(); ++k)
    if (scaled(k, k) < scaled(least, least)) least = k;
  if (!(scaled(least, least) < -kLeastCurvature * static_cast<double>(scaled.rows()) * unit))
    return std::nullopt;
  NegativeCurvature out{.direction = units.cwiseProduct(vectors.col(least)),
                        .curvature = scaled(least, least)};
  double slope = 0, columns = 0;
  for (Eigen::Index k = 0; k < out.direction.size(); ++k) {
    slope += out.direction[k] * at.gradient[k];
    columns += std::abs(out.direction[k]) * std::sqrt(at.squares[k]);
  }
  if (columns * columns > -out.curvature) return std::nullopt;
  if (slope > 0) out.direction = -out.direction;
  return out;
}

SaddleSearch::SaddleSearch(double cost, double curvature, double least)
    : start_(cost),
      first_(std::sqrt(2 * least / -curvature)),
      length_(first_),
      last_(cost),
      best_cost_(cost - least) {}

void SaddleSearch::judge(double cost) {
  if (cost < best_cost_) {
    best_cost_ = cost;
    best_ = length_;
  }
  if (cost < last_ && ++doublings_ < kMostDoublings) {
    last_ = cost;
    length_ *= 2;
  } else if (length_ > 0) {
    length_ = -first_;
    last_ = start_;
    doublings_ = 0;
  } else {
    length_ = 0;
  }
}

}  // namespace topograd
