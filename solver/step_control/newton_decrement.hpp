// The Newton decrement: what second derivatives say is left to gain at a point of few unknowns, and
// whether they hold as far as their step leads.
#pragma once

#include "../../runtime/engine/damped_steps.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd::ir {
struct Program;
}

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

/// An unknown, and the least diagonal entry of H with which it is known.
struct LeastCurvature {
  std::uint32_t unknown;
  double curvature;
};

/// A cost to the second order at a point, over the unknowns that move.
struct QuadraticModel {
  std::vector<std::uint32_t> unknowns;  ///< those of its rows, ascending
  Eigen::VectorXd gradient;
  /// Unknowns without any curvature have rows of zeros: they are left out.
  Eigen::MatrixXd hessian;
  Eigen::VectorXd squares;  ///< ‖J_i‖²; empty where they are not known
  Eigen::MatrixXd normal;   ///< JᵀJ; empty where the squares have to do
  Eigen::VectorXd noise;    ///< gradient_noise(); 0 where it is not known
};

/// Cholesky's factor L of a symmetric matrix in these units; none unless all squares of L's
/// diagonal are above this.
std::optional<Eigen::MatrixXd> factor_in_units(const Eigen::MatrixXd& matrix,
                                               const Eigen::VectorXd& units, double least_pivot);

/// Damping of the k-th try of a step, in units of ‖J_i‖²: none, then a millionth to a thousand.
double exact_damping(int k);
inline constexpr int kMostExactTries = 11;

/// True if a program has magnitudes, minima, choices, steps or operations made of these. Its
/// residuals may have corners then, and second derivatives say nothing about their other side.
bool has_corners(const ir::Program& program);

/// The minimum of a quadratic model with positive definite H. Units of the unknowns and of the cost
/// decide nothing. All sums are in one order, so that the bits are the same on every machine.
class NewtonDecrement {
 public:
  /// None unless H, with damping, is positive definite beyond rounding.
  ///
  ///   unit  relative rounding unit of the numbers
  static std::optional<NewtonDecrement> make(QuadraticModel at, double unit, double damping = 0);
  /// The same with the least damping that rounding does not hide, where H is singular: a minimum
  /// may have directions in which neither cost nor gradient change.
  static std::optional<NewtonDecrement> make_singular(const QuadraticModel& at, double unit);

  /// Those that move, as in the model.
  const std::vector<std::uint32_t>& unknowns() const { return at_.unknowns; }
  /// −H⁻¹g.
  const Eigen::VectorXd& step() const { return step_; }
  /// ½ g·H⁻¹g, which the step promises.
  double gain() const { return square_ / 2; }
  /// gain() where the model holds as far as its step leads; infinite elsewhere. The gradient has to
  /// fall to a tenth, in the norm of H⁻¹, or to rounding. On the way to an asymptote e^−x the step
  /// leaves 0.37 of it, on that to an inflection 0.25.
  ///
  ///   left   gradient after the step
  ///   asked  unknowns that need some curvature, and whose own entries of the gradient have to fall
  ///          so, too
  double gain_that_holds(const Eigen::VectorXd& left,
                         std::span<const LeastCurvature> asked = {}) const;
  /// True if a step that promises gain() lowers the cost by this much as it does, within a half;
  /// with damping, by a tenth of it at least.
  static bool keeps_promise(double gain, double decrease, double damping);

 private:
  explicit NewtonDecrement(QuadraticModel at) : at_(std::move(at)) {}
  bool factorize(double least_pivot);
  Eigen::VectorXd half_solved(const Eigen::VectorXd& g) const;
  double square(const Eigen::VectorXd& g) const;
  bool falls(const Eigen::VectorXd& left) const;
  bool falls_alone(const LeastCurvature& one, const Eigen::VectorXd& left) const;

  QuadraticModel at_;
  std::vector<bool> flat_;  // unknowns without curvature
  Eigen::VectorXd units_;   // diag(H)^(−½)
  Eigen::MatrixXd factor_;  // L of H = L Lᵀ in these units
  Eigen::VectorXd step_;
  double square_ = 0;  // g·H⁻¹g
};

}  // namespace topograd
