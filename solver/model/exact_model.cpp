// The Newton decrement and its step, from products with the Hessian.
#include "exact_model.hpp"

#include "../step_control/lost_columns.hpp"
#include "../step_control/negative_curvature.hpp"

#include <Eigen/Core>

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

/// Free scalars that no bound holds.
std::vector<std::uint32_t> moving(const runtime::Model& model, std::span<const double> x,
                                  std::span<const double> gradient) {
  std::vector<double> held(gradient.begin(), gradient.end());
  hold_at_bounds(model, x, held);
  std::vector<std::uint32_t> out = moving_unknowns(model);
  std::erase_if(out, [&](std::uint32_t k) { return gradient[k] != held[k]; });
  return out;
}

/// The Hessian by these scalars.
Eigen::MatrixXd hessian_of(runtime::Engine& engine, std::span<const std::uint32_t> scalars,
                           std::size_t all) {
  const auto size = static_cast<Eigen::Index>(scalars.size());
  Eigen::MatrixXd hessian(size, size);
  std::vector<double> direction(all), product(all);
  for (Eigen::Index column = 0; column < size; ++column) {
    const std::uint32_t k = scalars[static_cast<std::size_t>(column)];
    direction[k] = 1;
    runtime::second_derivatives(engine).hvp(direction, product);
    direction[k] = 0;
    for (Eigen::Index row = 0; row < size; ++row)
      hessian(row, column) = product[scalars[static_cast<std::size_t>(row)]];
  }
  return hessian;
}

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

/// True if derivatives at the engine's point are finite, so that steps can go on from there.
bool has_gradient(runtime::Engine& engine, std::size_t size) {
  std::vector<double> gradient(size);
  engine.gradient(gradient);
  return std::ranges::all_of(gradient, [](double g) { return std::isfinite(g); });
}

/// The exact model at the engine's point, over the scalars that move.
struct Model {
  std::vector<double> x;
  QuadraticModel numbers;

  static std::optional<Model> read(runtime::Engine& engine, const ProblemModel& model,
                                   const ColumnFacts& columns) {
    if (!has_exact_model(engine, model)) return std::nullopt;
    Model out{.x = std::vector<double>(model.model.scalars)};
    std::vector<double> gradient(out.x.size());
    engine.point(out.x);
    engine.gradient(gradient);
    std::vector<std::uint32_t> scalars = moving(model.model, out.x, gradient);
    if (scalars.empty() || scalars.size() > kMostCurved) return std::nullopt;
    out.numbers.gradient = gather(gradient, scalars);
    out.numbers.hessian = hessian_of(engine, scalars, out.x.size());
    out.numbers.noise = Eigen::VectorXd::Zero(out.numbers.gradient.size());
    if (!columns.squares.empty()) {
      out.numbers.squares = gather(columns.squares, scalars);
      out.numbers.noise = gather(columns.noise, scalars);
    }
    out.numbers.unknowns = std::move(scalars);
    return out;
  }
};

/// Costs beside a point along one unknown.
class Beside {
 public:
  Beside(runtime::Engine& engine, const ProblemModel& model, std::vector<double> x)
      : engine_(engine), model_(model.model), x_(std::move(x)), there_(x_) {}

  double cost(std::uint32_t k, double step) {
    there_[k] = x_[k] + step;
    if (!model_.lower.empty()) there_[k] = std::clamp(there_[k], model_.lower[k], model_.upper[k]);
    engine_.set_point(there_);
    const double cost = engine_.cost();
    at_ = std::exchange(there_[k], x_[k]);
    return cost;
  }
  /// Moves to where the last cost was.
  void take(std::uint32_t k) { x_[k] = there_[k] = at_; }
  const std::vector<double>& x() const { return x_; }

 private:
  runtime::Engine& engine_;
  const runtime::Model& model_;
  std::vector<double> x_, there_;
  double at_ = 0;
};

// Share of the cost by which a step beside a kink changes it, and the exponent of the longest one.
constexpr double kBeside = 1e-4;
constexpr int kLongest = 1000;
// Change of the residuals by a column along such a step, as a share of them, that explains it.
constexpr double kExplained = 1e-2 * kBeside;

/// The power of two from which on a step along unknown k to this side changes the cost; 0: none.
double length_that_changes(Beside& beside, std::uint32_t k, double side, double cost) {
  const auto changes = [&](int exponent) {
    return !(std::abs(beside.cost(k, side * std::ldexp(1.0, exponent)) - cost) <= kBeside * cost);
  };
  int low = -kLongest, high = kLongest;
  if (!changes(high)) return 0;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (changes(middle) ? high : low) = middle;
  }
  return std::ldexp(1.0, high);
}

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
                  const ColumnFacts& columns, std::span<const LeastCurvature> asked) {
  const std::optional<Model> at = Model::read(engine, model, columns);
  const auto decrement = at ? NewtonDecrement::make_singular(at->numbers, unit) : std::nullopt;
  if (!decrement) return kUnknown;
  const std::vector<std::uint32_t>& scalars = at->numbers.unknowns;
  std::vector<double> gradient(at->x.size());
  engine.set_point(moved(model.model, at->x, scalars, decrement->step()));
  engine.gradient(gradient);
  engine.set_point(at->x);
  return decrement->gain_that_holds(gather(gradient, scalars), asked);
}

std::optional<ExactStep> exact_step(runtime::Engine& engine, const ProblemModel& model, double unit,
                                    double cost, const ColumnFacts& columns, int tries) {
  const std::optional<Model> at = Model::read(engine, model, columns);
  if (!at) return std::nullopt;
  const std::vector<std::uint32_t>& scalars = at->numbers.unknowns;
  for (int k = 0; k < (columns.squares.empty() ? 1 : tries); ++k) {
    const auto decrement = NewtonDecrement::make(at->numbers, unit, exact_damping(k));
    if (!decrement) continue;
    ExactStep out{.x = moved(model.model, at->x, scalars, decrement->step()),
                  .step_norm = decrement->step().norm()};
    engine.set_point(out.x);
    out.cost = engine.cost();
    if (NewtonDecrement::keeps_promise(decrement->gain(), cost - out.cost, exact_damping(k)) &&
        has_gradient(engine, out.x.size())) {
      engine.set_point(at->x);
      return out;
    }
  }
  engine.set_point(at->x);
  return std::nullopt;
}

std::optional<ExactStep> kink_step(runtime::Engine& engine, const ProblemModel& model,
                                   std::span<const std::uint32_t> unknowns,
                                   std::span<const double> squares, double cost, double least) {
  std::vector<double> x(model.model.scalars);
  engine.point(x);
  Beside beside(engine, model, x);
  double lowest = cost;
  for (const std::uint32_t k : unknowns) {
    double best = lowest - least, step = 0;
    for (const double side : {1.0, -1.0}) {
      const double length = length_that_changes(beside, k, side, lowest);
      const double column = squares.empty() ? 0 : std::sqrt(squares[k]);
      if (column * length > kExplained * std::sqrt(2 * lowest)) continue;
      for (const double part : {1e3, 1.0, 1e-3}) {
        const double there = length > 0 ? beside.cost(k, side * part * length) : lowest;
        if (!(there < best)) continue;
        best = there;
        step = side * part * length;
      }
    }
    if (step == 0) continue;
    lowest = beside.cost(k, step);
    beside.take(k);
  }
  ExactStep out{.x = beside.x(), .cost = lowest};
  engine.set_point(out.x);
  const bool found = lowest < cost && has_gradient(engine, x.size());
  double squared = 0;
  for (std::size_t k = 0; k < x.size(); ++k) squared += (out.x[k] - x[k]) * (out.x[k] - x[k]);
  out.step_norm = std::sqrt(squared);
  engine.set_point(x);
  return found ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<ExactStep> saddle_step(runtime::Engine& engine, const ProblemModel& model,
                                     double unit, double cost, double least,
                                     const ColumnFacts& columns) {
  if (columns.squares.empty()) return std::nullopt;
  const std::optional<Model> at = Model::read(engine, model, columns);
  const auto descent = at ? negative_curvature(at->numbers, unit) : std::nullopt;
  if (!descent) return std::nullopt;
  ExactStep out;
  const auto move = [&](double length) {
    const Eigen::VectorXd step = length * descent->direction;
    out.x = moved(model.model, at->x, at->numbers.unknowns, step);
    out.step_norm = step.norm();
    engine.set_point(out.x);
    out.cost = engine.cost();
  };
  SaddleSearch search(cost, descent->curvature, least);
  while (search.length() != 0) {
    move(search.length());
    search.judge(out.cost);
  }
  if (search.best() != 0) move(search.best());
  const bool found = search.best() != 0 && has_gradient(engine, at->x.size());
  engine.set_point(at->x);
  return found ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace topograd
