// The Newton decrement and its step, from products with the Hessian.
#include "exact_model.hpp"

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// Pivots of the scaled Hessian, in units of rounding, below which it may be singular.
constexpr double kLeastPivot = 64;
// Share of the gradient, in the norm of H⁻¹, that the model's step leaves where the model holds.
// Towards an asymptote e^−x it leaves 0.37, towards an inflection 0.25.
constexpr double kFalls = 0.1;
// Most by which what a step brings may differ from what it promises, as a share of the latter.
constexpr double kOff = 0.5;

/// Free scalars that no bound holds.
std::vector<std::uint32_t> moving(const runtime::Model& model, std::span<const double> x,
                                  std::span<const double> gradient) {
  std::vector<double> held(gradient.begin(), gradient.end());
  hold_at_bounds(model, x, held);
  std::vector<std::uint32_t> out;
  for (std::uint32_t k = 0; k < x.size(); ++k) {
    const bool fixed = !model.constant.empty() && model.constant[k] != 0;
    if (!fixed && gradient[k] == held[k]) out.push_back(k);
  }
  return out;
}

/// The Hessian by these scalars. Those without curvature, which are added to `flat`, have rows and
/// columns of the identity: nothing reads them.
Eigen::MatrixXd hessian_of(runtime::Engine& engine, std::span<const std::uint32_t> scalars,
                           std::size_t all, std::vector<std::uint32_t>& flat) {
  const auto size = static_cast<Eigen::Index>(scalars.size());
  Eigen::MatrixXd hessian(size, size);
  std::vector<double> direction(all), product(all);
  for (Eigen::Index column = 0; column < size; ++column) {
    const std::uint32_t k = scalars[static_cast<std::size_t>(column)];
    direction[k] = 1;
    runtime::second_derivatives(engine).hvp(direction, product);
    direction[k] = 0;
    bool read = false;
    for (Eigen::Index row = 0; row < size; ++row) {
      hessian(row, column) = product[scalars[static_cast<std::size_t>(row)]];
      read = read || hessian(row, column) != 0;
    }
    if (read) continue;
    hessian(column, column) = 1;
    flat.push_back(k);
  }
  return hessian;
}

/// H = U⁻¹ L Lᵀ U⁻¹ with U = diag(H)^(−½), so that units of the unknowns decide nothing.
class ScaledFactor {
 public:
  /// Null unless H is positive definite beyond rounding.
  static std::optional<ScaledFactor> make(const Eigen::MatrixXd& hessian, double unit) {
    const Eigen::VectorXd diagonal = hessian.diagonal();
    if (!hessian.allFinite() || !(diagonal.minCoeff() > 0)) return std::nullopt;
    ScaledFactor out(diagonal.cwiseSqrt().cwiseInverse(), hessian);
    if (out.factor_.info() != Eigen::Success) return std::nullopt;
    const double least = out.factor_.matrixLLT().diagonal().minCoeff();
    if (!(least * least > kLeastPivot * static_cast<double>(hessian.rows()) * unit))
      return std::nullopt;
    return out;
  }

  /// −H⁻¹g.
  Eigen::VectorXd step(const Eigen::VectorXd& g) const {
    return -units_.cwiseProduct(factor_.solve(units_.cwiseProduct(g)));
  }
  /// g·H⁻¹g.
  double square(const Eigen::VectorXd& g) const {
    return factor_.matrixL().solve(units_.cwiseProduct(g)).squaredNorm();
  }

 private:
  ScaledFactor(Eigen::VectorXd units, const Eigen::MatrixXd& hessian)
      : units_(std::move(units)), factor_(units_.asDiagonal() * hessian * units_.asDiagonal()) {}

  Eigen::VectorXd units_;
  Eigen::LLT<Eigen::MatrixXd> factor_;
};

/// Numbers of these scalars.
Eigen::VectorXd gather(std::span<const double> all, std::span<const std::uint32_t> scalars) {
  Eigen::VectorXd out(static_cast<Eigen::Index>(scalars.size()));
  for (std::size_t k = 0; k < scalars.size(); ++k)
    out[static_cast<Eigen::Index>(k)] = all[scalars[k]];
  return out;
}

/// x + step, within the bounds.
std::vector<double> moved(const runtime::Model& model, std::vector<double> x,
                          std::span<const std::uint32_t> scalars, const Eigen::VectorXd& step) {
  for (std::size_t j = 0; j < scalars.size(); ++j) {
    const std::uint32_t k = scalars[j];
    x[k] += step[static_cast<Eigen::Index>(j)];
    if (!model.lower.empty()) x[k] = std::clamp(x[k], model.lower[k], model.upper[k]);
  }
  return x;
}

/// The exact model at the engine's point, over the scalars that move.
struct Model {
  std::vector<double> x;
  std::vector<std::uint32_t> scalars;
  std::vector<std::uint32_t> flat;  // those without curvature
  Eigen::VectorXd gradient;
  Eigen::MatrixXd hessian;

  static std::optional<Model> read(runtime::Engine& engine, const ProblemModel& model) {
    if (!has_exact_model(engine, model)) return std::nullopt;
    Model out{.x = std::vector<double>(model.model.scalars)};
    std::vector<double> gradient(out.x.size());
    engine.point(out.x);
    engine.gradient(gradient);
    out.scalars = moving(model.model, out.x, gradient);
    if (out.scalars.empty() || out.scalars.size() > kMostCurved) return std::nullopt;
    out.gradient = gather(gradient, out.scalars);
    out.hessian = hessian_of(engine, out.scalars, out.x.size(), out.flat);
    return out;
  }
};

}  // namespace

bool has_exact_model(runtime::Engine& engine, const ProblemModel& model) {
  const auto branches = [](const runtime::Term& term) {
    return !term.topology->program.guards.empty();
  };
  return engine.abilities().second_derivatives != nullptr && model.shares == nullptr &&
         model.problem->host_blocks().empty() && !model.problem->has_manifolds() &&
         std::ranges::none_of(model.model.terms, branches);
}

double exact_gain(runtime::Engine& engine, const ProblemModel& model, double unit,
                  std::span<const LeastCurvature> asked) {
  const std::optional<Model> at = Model::read(engine, model);
  const auto factor = at ? ScaledFactor::make(at->hessian, unit) : std::nullopt;
  if (!factor) return kUnknown;
  const double square = factor->square(at->gradient);
  std::vector<double> gradient(at->x.size());
  engine.set_point(moved(model.model, at->x, at->scalars, factor->step(at->gradient)));
  engine.gradient(gradient);
  engine.set_point(at->x);
  const Eigen::VectorXd left = gather(gradient, at->scalars);
  if (!(factor->square(left) <= kFalls * kFalls * square)) return kUnknown;
  for (const LeastCurvature& one : asked) {
    const auto found = std::ranges::lower_bound(at->scalars, one.scalar);
    const bool moves = found != at->scalars.end() && *found == one.scalar;
    const auto k = static_cast<Eigen::Index>(found - at->scalars.begin());
    if (!moves || std::ranges::count(at->flat, one.scalar) > 0 ||
        !(at->hessian(k, k) >= one.curvature) ||
        !(std::abs(left[k]) <= kFalls * std::abs(at->gradient[k])))
      return kUnknown;
  }
  return square / 2;
}

std::optional<ExactStep> exact_step(runtime::Engine& engine, const ProblemModel& model, double unit,
                                    double cost) {
  const std::optional<Model> at = Model::read(engine, model);
  const auto factor = at ? ScaledFactor::make(at->hessian, unit) : std::nullopt;
  if (!factor) return std::nullopt;
  const Eigen::VectorXd step = factor->step(at->gradient);
  const double promised = factor->square(at->gradient) / 2;
  ExactStep out{.x = moved(model.model, at->x, at->scalars, step), .step_norm = step.norm()};
  engine.set_point(out.x);
  out.cost = engine.cost();
  engine.set_point(at->x);
  if (!(std::abs(cost - out.cost - promised) <= kOff * promised)) return std::nullopt;
  return out;
}

}  // namespace topograd
