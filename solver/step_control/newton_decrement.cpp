// The Newton decrement, by a Cholesky factor in units of the diagonal.
#include "newton_decrement.hpp"

#include "convergence.hpp"

#include <cmath>
#include <utility>

namespace topograd {
namespace {

// Pivots of the scaled Hessian, in units of rounding, below which it may be singular.
constexpr double kLeastPivot = 64;
// Share of the gradient, in the norm of H⁻¹, that the model's step leaves where the model holds.
constexpr double kFalls = 0.1;
// Most by which what a step brings may differ from what it promises, as a share of the latter.
constexpr double kOff = 0.5;
// Units of rounding in an entry of the gradient.
constexpr double kGradientUnits = 8;

}  // namespace

std::vector<double> gradient_noise(std::span<const double> column_squares,
                                   const runtime::PointReport& point, double unit) {
  const double rows = kGradientUnits * unit * (residual_norm(point.cost) + point.scaled_x_norm);
  std::vector<double> out;
  out.reserve(column_squares.size());
  for (const double square : column_squares) out.push_back(std::sqrt(square) * rows);
  return out;
}

std::optional<NewtonDecrement> NewtonDecrement::make(QuadraticModel at, double unit) {
  const Eigen::Index n = at.hessian.rows();
  std::vector<bool> flat(static_cast<std::size_t>(n));
  for (Eigen::Index k = 0; k < n; ++k) {
    flat[static_cast<std::size_t>(k)] = (at.hessian.col(k).array() == 0).all();
    if (flat[static_cast<std::size_t>(k)]) at.hessian(k, k) = 1;
  }
  const Eigen::VectorXd diagonal = at.hessian.diagonal();
  if (!at.hessian.allFinite() || !(diagonal.minCoeff() > 0)) return std::nullopt;
  NewtonDecrement out(std::move(at), diagonal);
  if (out.factor_.info() != Eigen::Success) return std::nullopt;
  const double least = out.factor_.matrixLLT().diagonal().minCoeff();
  if (!(least * least > kLeastPivot * static_cast<double>(n) * unit)) return std::nullopt;
  const Eigen::VectorXd& g = out.at_.gradient;
  out.step_ = -out.units_.cwiseProduct(out.factor_.solve(out.units_.cwiseProduct(g)));
  out.square_ = out.square(g);
  out.flat_ = std::move(flat);
  return out;
}

NewtonDecrement::NewtonDecrement(QuadraticModel at, const Eigen::VectorXd& diagonal)
    : at_(std::move(at)),
      units_(diagonal.cwiseSqrt().cwiseInverse()),
      factor_(units_.asDiagonal() * at_.hessian * units_.asDiagonal()) {}

/// g·H⁻¹g.
double NewtonDecrement::square(const Eigen::VectorXd& g) const {
  return factor_.matrixL().solve(units_.cwiseProduct(g)).squaredNorm();
}

bool NewtonDecrement::falls(const Eigen::VectorXd& left) const {
  const Eigen::VectorXd seen = (left.array().abs() <= at_.noise.array()).select(0.0, left);
  return left.allFinite() && square(seen) <= kFalls * kFalls * square_;
}

bool NewtonDecrement::falls_alone(Eigen::Index k, double curvature,
                                  const Eigen::VectorXd& left) const {
  return !flat_[static_cast<std::size_t>(k)] && at_.hessian(k, k) >= curvature &&
         std::abs(left[k]) <= kFalls * std::abs(at_.gradient[k]);
}

bool NewtonDecrement::keeps_promise(double decrease) const {
  return std::abs(decrease - gain()) <= kOff * gain();
}

}  // namespace topograd
