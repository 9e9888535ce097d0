// The step of least model value along the dogleg, or in the plane that it spans.
#include "dogleg.hpp"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>

namespace topograd {

Eigen::VectorXd dogleg_step(const Eigen::VectorXd& gradient, const Eigen::VectorXd& gauss_newton,
                            double radius, const Quadratic& quadratic) {
  if (gauss_newton.norm() <= radius) return gauss_newton;
  const double square = gradient.squaredNorm();
  const Eigen::VectorXd cauchy = -(square / quadratic(gradient)) * gradient;
  // Not finite where the gradient is in the kernel: the model falls without end along it.
  if (!cauchy.allFinite() || cauchy.norm() >= radius)
    return -(radius / std::sqrt(square)) * gradient;
  // ‖cauchy + β (gauss_newton − cauchy)‖ = Δ, the root in [0, 1] without cancellation.
  const Eigen::VectorXd leg = gauss_newton - cauchy;
  const double a = leg.squaredNorm(), b = cauchy.dot(leg);
  const double c = cauchy.squaredNorm() - radius * radius;  // <= 0
  const double root = std::sqrt(b * b - a * c);
  const double beta = b <= 0 ? (root - b) / a : -c / (b + root);
  return cauchy + beta * leg;
}

namespace {

/// y(λ) = −(D + λ)⁻¹ g in the eigenvectors' coordinates, with ‖y‖ = radius: λ by safeguarded
/// Newton steps on 1/‖y‖ (Moré & Sorensen).
Eigen::Vector2d on_boundary(const Eigen::Vector2d& g, const Eigen::Vector2d& eigenvalues,
                            double radius) {
  double low = 0, high = g.norm() / radius;
  double lambda = high / 2;
  Eigen::Vector2d y = Eigen::Vector2d::Zero();
  for (int k = 0; k < 100; ++k) {
    const Eigen::Vector2d d = eigenvalues.array() + lambda;
    y = -(g.array() / d.array()).matrix();
    const double norm = y.norm();
    if (std::fabs(norm - radius) <= 1e-14 * radius) break;
    (norm > radius ? low : high) = lambda;
    const double slope = y.cwiseAbs2().dot(d.cwiseInverse());
    const double newton = lambda + norm * norm / slope * (norm - radius) / radius;
    lambda = newton > low && newton < high ? newton : (low + high) / 2;
  }
  return y;
}

}  // namespace

Eigen::VectorXd subspace_step(const Eigen::VectorXd& gradient, const Eigen::VectorXd& gauss_newton,
                              double radius, const Quadratic& quadratic) {
  if (gauss_newton.norm() <= radius) return gauss_newton;
  const Eigen::VectorXd first = gradient.normalized();
  Eigen::VectorXd second = gauss_newton - first.dot(gauss_newton) * first;
  if (second.norm() <= 1e-12 * gauss_newton.norm())
    return dogleg_step(gradient, gauss_newton, radius, quadratic);
  second.normalize();
  Eigen::Matrix2d B;
  B(0, 0) = quadratic(first);
  B(1, 1) = quadratic(second);
  B(0, 1) = B(1, 0) = (quadratic(first + second) - B(0, 0) - B(1, 1)) / 2;
  const Eigen::SelfAdjointEigenSolver<Eigen::Matrix2d> eigen(B);
  const Eigen::Vector2d g =
      eigen.eigenvectors().transpose() * Eigen::Vector2d(gradient.dot(first), gradient.dot(second));
  const Eigen::Vector2d values = eigen.eigenvalues().cwiseMax(0.0);
  const Eigen::Vector2d y = eigen.eigenvectors() * on_boundary(g, values, radius);
  return y[0] * first + y[1] * second;
}

}  // namespace topograd
