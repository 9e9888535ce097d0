// The Newton decrement, by a Cholesky factor in units of the diagonal. Eigen's factors and sums
// would have other bits on processors with other registers.
#include "newton_decrement.hpp"

#include "../../ir/op.hpp"
#include "../../ir/program.hpp"
#include "convergence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace topograd {
namespace {

// Pivots of the scaled Hessian, in units of rounding, below which it may be singular.
constexpr double kLeastPivot = 64;
// Share of the gradient, in the norm of H⁻¹, that the model's step leaves where the model holds.
constexpr double kFalls = 0.1;
// Most by which what a step brings may differ from what it promises, as a share of the latter, and
// the least share that a step with damping brings.
constexpr double kOff = 0.5, kLeastOfPromise = 0.1;
// Units of rounding in an entry of the gradient.
constexpr double kGradientUnits = 8;

double sum_of_squares(const Eigen::VectorXd& v) {
  double sum = 0;
  for (Eigen::Index k = 0; k < v.size(); ++k) sum += v[k] * v[k];
  return sum;
}

}  // namespace

std::vector<double> gradient_noise(std::span<const double> column_squares,
                                   const runtime::PointReport& point, double unit) {
  const double rows = kGradientUnits * unit * (residual_norm(point.cost) + point.scaled_x_norm);
  std::vector<double> out;
  out.reserve(column_squares.size());
  for (const double square : column_squares) out.push_back(std::sqrt(square) * rows);
  return out;
}

bool has_corners(const ir::Program& program) {
  return std::ranges::any_of(program.nodes, [](const ir::Node& node) {
    const ir::OpInfo& op = ir::info(node.op);
    return op.steps || op.boolean || op.composite || op.facts == ir::FactRule::magnitude ||
           op.facts == ir::FactRule::minimum || op.facts == ir::FactRule::maximum ||
           op.facts == ir::FactRule::choice;
  });
}

double exact_damping(int k) { return k == 0 ? 0 : std::pow(10.0, k - 7); }

std::optional<Eigen::MatrixXd> factor_in_units(const Eigen::MatrixXd& matrix,
                                               const Eigen::VectorXd& units, double least_pivot) {
  const Eigen::Index n = matrix.rows();
  Eigen::MatrixXd l = Eigen::MatrixXd::Zero(n, n);
  for (Eigen::Index j = 0; j < n; ++j) {
    for (Eigen::Index i = j; i < n; ++i) {
      double entry = units[i] * matrix(i, j) * units[j];
      for (Eigen::Index k = 0; k < j; ++k) entry -= l(i, k) * l(j, k);
      if (i > j) {
        l(i, j) = entry / l(j, j);
      } else if (entry > least_pivot) {
        l(j, j) = std::sqrt(entry);
      } else {
        return std::nullopt;
      }
    }
  }
  return l;
}

std::optional<NewtonDecrement> NewtonDecrement::make(QuadraticModel at, double unit,
                                                     double damping) {
  const Eigen::Index n = at.hessian.rows();
  if (damping > 0) at.hessian.diagonal() += damping * at.squares;
  std::vector<bool> flat(static_cast<std::size_t>(n));
  for (Eigen::Index k = 0; k < n; ++k) {
    flat[static_cast<std::size_t>(k)] = (at.hessian.col(k).array() == 0).all();
    if (flat[static_cast<std::size_t>(k)]) at.hessian(k, k) = 1;
  }
  if (!at.hessian.allFinite() || !(at.hessian.diagonal().minCoeff() > 0)) return std::nullopt;
  NewtonDecrement out(std::move(at));
  if (!out.factorize(kLeastPivot * static_cast<double>(n) * unit)) return std::nullopt;
  const Eigen::MatrixXd& l = out.factor_;
  Eigen::VectorXd y = out.half_solved(out.at_.gradient);
  out.square_ = sum_of_squares(y);
  for (Eigen::Index i = n - 1; i >= 0; --i) {
    for (Eigen::Index k = i + 1; k < n; ++k) y[i] -= l(k, i) * y[k];
    y[i] /= l(i, i);
  }
  out.step_ = -out.units_.cwiseProduct(y);
  out.flat_ = std::move(flat);
  return out;
}

std::optional<NewtonDecrement> NewtonDecrement::make_singular(const QuadraticModel& at,
                                                              double unit) {
  std::optional<NewtonDecrement> out = make(at, unit);
  if (!out && at.squares.size() > 0)
    out = make(at, unit, 2 * kLeastPivot * static_cast<double>(at.unknowns.size()) * unit);
  return out;
}

bool NewtonDecrement::factorize(double least_pivot) {
  units_ = at_.hessian.diagonal().cwiseSqrt().cwiseInverse();
  std::optional<Eigen::MatrixXd> factor = factor_in_units(at_.hessian, units_, least_pivot);
  if (factor) factor_ = std::move(*factor);
  return factor.has_value();
}

/// L⁻¹ g in units of the diagonal.
Eigen::VectorXd NewtonDecrement::half_solved(const Eigen::VectorXd& g) const {
  Eigen::VectorXd y = units_.cwiseProduct(g);
  for (Eigen::Index i = 0; i < y.size(); ++i) {
    for (Eigen::Index k = 0; k < i; ++k) y[i] -= factor_(i, k) * y[k];
    y[i] /= factor_(i, i);
  }
  return y;
}

/// g·H⁻¹g.
double NewtonDecrement::square(const Eigen::VectorXd& g) const {
  return sum_of_squares(half_solved(g));
}

bool NewtonDecrement::falls(const Eigen::VectorXd& left) const {
  const Eigen::VectorXd seen = (left.array().abs() <= at_.noise.array()).select(0.0, left);
  return left.allFinite() && square(seen) <= kFalls * kFalls * square_;
}

/// The same for one unknown alone, which has at least this curvature besides.
bool NewtonDecrement::falls_alone(const LeastCurvature& one, const Eigen::VectorXd& left) const {
  const auto found = std::ranges::lower_bound(at_.unknowns, one.unknown);
  if (found == at_.unknowns.end() || *found != one.unknown) return false;
  const Eigen::Index k = found - at_.unknowns.begin();
  return !flat_[static_cast<std::size_t>(k)] && at_.hessian(k, k) >= one.curvature &&
         std::abs(left[k]) <= kFalls * std::abs(at_.gradient[k]);
}

double NewtonDecrement::gain_that_holds(const Eigen::VectorXd& left,
                                        std::span<const LeastCurvature> asked) const {
  const bool holds = falls(left) && std::ranges::all_of(asked, [&](const LeastCurvature& one) {
                       return falls_alone(one, left);
                     });
  return holds ? gain() : std::numeric_limits<double>::infinity();
}

bool NewtonDecrement::keeps_promise(double gain, double decrease, double damping) {
  return damping > 0 ? decrease >= kLeastOfPromise * gain
                     : std::abs(decrease - gain) <= kOff * gain;
}

}  // namespace topograd
