// The step of least model value along the dogleg, or in the plane that it spans.
#pragma once

#include <Eigen/Core>

#include <functional>

namespace topograd {

/// v ↦ vᵀ B v, B the model's symmetric positive semidefinite matrix.
using Quadratic = std::function<double(const Eigen::VectorXd&)>;

/// The point on the path 0, Cauchy point, Gauss–Newton point where it leaves the region ‖y‖ <= Δ.
/// Source: Nocedal & Wright, Numerical Optimization, 2nd ed., section 4.1.
Eigen::VectorXd dogleg_step(const Eigen::VectorXd& gradient, const Eigen::VectorXd& gauss_newton,
                            double radius, const Quadratic& quadratic);

/// The least value of gᵀy + ½ yᵀB y over ‖y‖ <= Δ in the plane of gradient and Gauss–Newton step.
/// Source: Byrd, Schnabel, Shultz, Approximate solution of the trust region problem by
/// minimization over two-dimensional subspaces (1988).
Eigen::VectorXd subspace_step(const Eigen::VectorXd& gradient, const Eigen::VectorXd& gauss_newton,
                              double radius, const Quadratic& quadratic);

}  // namespace topograd
