// The Newton decrement: what second derivatives say is left to gain at a point of few unknowns, and
// whether they hold as far as their step leads.
#pragma once

#include "../../runtime/engine/damped_steps.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// Unknowns up to which the Hessian is taken.
inline constexpr std::size_t kMostCurved = 64;

/// Changes of the gradient that rounding of residuals and unknowns may hide, by unknown:
/// ε ‖J_i‖ (‖r‖ + √Σ (‖J_k‖ x_k)²), a few times. The column of an unknown that nears an asymptote
/// or an inflection vanishes with its gradient, so that nothing is hidden there.
///
///   column_squares  ‖J_i‖²
///   unit            ε: the relative rounding unit
std::vector<double> gradient_noise(std::span<const double> column_squares,
                                   const runtime::PointReport& point, double unit);

/// A cost to the second order at a point, over the unknowns that move.
struct QuadraticModel {
  Eigen::VectorXd gradient;
  /// Unknowns without any curvature have rows of zeros: they are left out.
  Eigen::MatrixXd hessian;
  Eigen::VectorXd noise;  ///< gradient_noise(); 0 where it is not known
};

/// The minimum of a quadratic model with positive definite H. Units of the unknowns and of the cost
/// decide nothing.
class NewtonDecrement {
 public:
  /// None unless H is positive definite beyond rounding.
  ///
  ///   unit  relative rounding unit of the numbers
  static std::optional<NewtonDecrement> make(QuadraticModel at, double unit);

  /// −H⁻¹g.
  const Eigen::VectorXd& step() const { return step_; }
  /// ½ g·H⁻¹g, which the step promises.
  double gain() const { return square_ / 2; }
  /// True if the gradient falls to a tenth, in the norm of H⁻¹, or to rounding. On the way to an
  /// asymptote e^−x the step leaves 0.37 of it, on that to an inflection 0.25.
  ///
  ///   left  gradient after the step
  bool falls(const Eigen::VectorXd& left) const;
  /// The same for one unknown alone, which has at least this curvature besides.
  bool falls_alone(Eigen::Index k, double curvature, const Eigen::VectorXd& left) const;
  /// True if the step lowers the cost by this much as it promises, within a half.
  bool keeps_promise(double decrease) const;

 private:
  NewtonDecrement(QuadraticModel at, const Eigen::VectorXd& diagonal);
  double square(const Eigen::VectorXd& g) const;

  QuadraticModel at_;
  std::vector<bool> flat_;              // unknowns without curvature
  Eigen::VectorXd units_;               // diag(H)^(−½)
  Eigen::LLT<Eigen::MatrixXd> factor_;  // of H in these units
  Eigen::VectorXd step_;
  double square_ = 0;  // g·H⁻¹g
};

}  // namespace topograd
