// The Newton decrement and its step, from products with the Hessian, and ways from saddles.
#include "exact_model.hpp"

#include "../step_control/convergence.hpp"
#include "../step_control/lost_columns.hpp"
#include "../step_control/negative_curvature.hpp"
#include "../step_control/steps_beside.hpp"
#include "local_costs.hpp"
#include "nonfinite.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
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

/// True if all residuals are in this process, and expressions without branches.
bool is_expression(const ProblemModel& model) {
  const auto branches = [](const runtime::Term& term) {
    return !term.topology->program.guards.empty();
  };
  return model.shares == nullptr && model.problem->host_blocks().empty() &&
         std::ranges::none_of(model.model.terms, branches);
}

/// The Hessians by the unknowns of groups that share no residuals: a product is by one unknown of
/// each of them.
std::vector<Eigen::MatrixXd> hessians_of(runtime::Engine& engine,
                                         std::span<const UnknownGroup> groups, std::size_t all) {
  std::vector<Eigen::MatrixXd> out;
  std::size_t largest = 0;
  for (const UnknownGroup& group : groups) {
    const auto size = static_cast<Eigen::Index>(group.unknowns.size());
    out.emplace_back(size, size);
    largest = std::max(largest, group.unknowns.size());
  }
  std::vector<double> direction(all), product(all);
  for (std::size_t column = 0; column < largest; ++column) {
    for (const UnknownGroup& group : groups)
      if (column < group.unknowns.size()) direction[group.unknowns[column]] = 1;
    runtime::second_derivatives(engine).hvp(direction, product);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::vector<std::uint32_t>& unknowns = groups[g].unknowns;
      if (column >= unknowns.size()) continue;
      direction[unknowns[column]] = 0;
      for (std::size_t row = 0; row < unknowns.size(); ++row)
        out[g](static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)) =
            product[unknowns[row]];
    }
  }
  return out;
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
    const UnknownGroup together{.unknowns = scalars, .blocks = {}};
    out.numbers.hessian = hessians_of(engine, std::span(&together, 1), out.x.size()).front();
    out.numbers.noise = Eigen::VectorXd::Zero(out.numbers.gradient.size());
    if (!columns.squares.empty()) {
      out.numbers.squares = gather(columns.squares, scalars);
      out.numbers.noise = gather(columns.noise, scalars);
    }
    out.numbers.unknowns = std::move(scalars);
    return out;
  }
};

/// Evaluations of the cost that a search beside a point may take, and evaluations of residual
/// blocks if these are more; times that it looks again from where it found something; and indices
/// of unknowns in all blocks beyond which groups are not made.
constexpr std::size_t kMostEvaluations = 200, kMostBlocks = std::size_t{1} << 20, kMostRounds = 4,
                      kMostReads = std::size_t{1} << 26;
// Most probes of steps_beside() for an unknown, and one of its cost.
constexpr std::size_t kProbes = 43;

/// The search for a point of lower cost beside the engine's.
class Beside {
 public:
  Beside(runtime::Engine& engine, const ProblemModel& model, const EndFacts& at)
      : engine_(engine),
        problem_(model),
        model_(model.model),
        at_(at),
        x_(at.x.begin(), at.x.end()),
        squares_(at.columns.squares) {}

  BesideEnd look() {
    std::vector<std::uint32_t> vanished = at_.nowhere ? moving_unknowns(model_) : find_vanished();
    std::vector<std::uint32_t> kinks;
    if (!at_.nowhere)
      kinks = KinkCheck(problem_, model_.constant, runtime::Precision::f64,
                        autodiff::KinksSought::falling)
                  .unknowns_at(x_);
    drop_manifolds(vanished);
    drop_manifolds(kinks);
    if (vanished.empty() && kinks.empty() && !at_.dependent)
      return {.step = {}, .looked = at_.columns.squares.empty()};
    std::optional<ExactStep> found = curve(vanished);
    if (!found) found = step_beside(vanished, kinks);
    engine_.set_point(x_);
    return {.step = std::move(found), .looked = true};
  }

 private:
  /// If columns are not known, the gradient says of most that they have not vanished.
  std::vector<std::uint32_t> find_vanished() {
    const bool known = !squares_.empty();
    if (!known) {
      squares_.resize(x_.size());
      engine_.gradient(squares_);
      for (double& g : squares_) g = std::pow(g / residual_norm(at_.cost), 2);
    }
    std::vector<std::uint32_t> out = vanished_columns(model_, squares_, x_, at_.start, at_.cost);
    if (known || out.empty()) return out;
    const std::vector<double> squares = LocalCosts(problem_, out).squares(x_);
    for (std::size_t k = 0; k < out.size(); ++k) squares_[out[k]] = squares[k];
    return vanished_columns(model_, squares_, x_, at_.start, at_.cost);
  }

  void drop_manifolds(std::vector<std::uint32_t>& unknowns) const {
    if (model_.manifolds == nullptr || unknowns.empty()) return;
    std::vector<bool> on(x_.size());
    for (const runtime::ManifoldBlocks& blocks : model_.manifolds->all)
      for (const std::uint32_t first : blocks.blocks)
        std::fill_n(on.begin() + first, blocks.width, true);
    std::erase_if(unknowns, [&](std::uint32_t k) { return on[k]; });
  }

  double clamped(std::uint32_t k, double value) const {
    return model_.lower.empty() ? value : std::clamp(value, model_.lower[k], model_.upper[k]);
  }
  /// Gain that counts, of a part of the cost.
  double least_of(double cost) const { return at_.least * (cost / at_.cost); }

  /// The point, if the cost there is lower by as much as counts.
  std::optional<ExactStep> taken(std::vector<double> x) {
    engine_.set_point(x);
    ExactStep out{.x = std::move(x), .cost = engine_.cost()};
    if (!(at_.cost - out.cost > at_.least) || !has_gradient(engine_, x_.size()))
      return std::nullopt;
    double squared = 0;
    for (std::size_t k = 0; k < x_.size(); ++k) squared += std::pow(out.x[k] - x_[k], 2);
    out.step_norm = std::sqrt(squared);
    return out;
  }

  /// Along directions of negative curvature.
  std::optional<ExactStep> curve(std::span<const std::uint32_t> vanished) {
    if (!has_exact_model(engine_, problem_)) return std::nullopt;
    std::vector<double> gradient(x_.size());
    engine_.gradient(gradient);
    const std::vector<std::uint32_t> scalars = moving(model_, x_, gradient);
    std::optional<LocalCosts> local;
    std::vector<UnknownGroup> groups;
    if (scalars.size() <= kMostCurved) {
      groups.push_back({.unknowns = scalars, .blocks = {}});
    } else if (!vanished.empty() && count_reads() <= kMostReads) {
      local.emplace(problem_, scalars);
      groups = groups_around(*local, scalars, vanished, kMostCurved);
    }
    std::erase_if(groups, [](const UnknownGroup& group) { return group.unknowns.empty(); });
    const std::vector<Eigen::MatrixXd> hessians = hessians_of(engine_, groups, x_.size());
    std::vector<double> x = x_;
    bool found = false;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::vector<std::uint32_t>& unknowns = groups[g].unknowns;
      QuadraticModel here{.unknowns = unknowns,
                          .gradient = gather(gradient, unknowns),
                          .hessian = hessians[g],
                          .squares = Eigen::VectorXd::Zero(hessians[g].rows()),
                          .noise = {}};
      if (at_.by_columns && !squares_.empty()) here.squares = gather(squares_, unknowns);
      const auto descent = negative_curvature(here, at_.unit);
      if (descent) found |= search_along(groups[g], *descent, local ? &*local : nullptr, x);
    }
    return found ? taken(std::move(x)) : std::nullopt;
  }

  std::size_t count_reads() const {
    std::size_t reads = 0;
    for (const runtime::Term& term : model_.terms)
      reads += term.batch->size() * term.batch->parameter_columns();
    return reads;
  }

  /// Moves the unknowns of x along a direction, if that lowers the cost. The engine has it for all
  /// unknowns together.
  bool search_along(const UnknownGroup& group, const NegativeCurvature& descent,
                    const LocalCosts* local, std::vector<double>& x) {
    std::vector<double> values(group.unknowns.size());
    const auto move = [&](double length) {
      for (std::size_t j = 0; j < values.size(); ++j)
        values[j] = clamped(
            group.unknowns[j],
            x_[group.unknowns[j]] + length * descent.direction[static_cast<Eigen::Index>(j)]);
    };
    const auto cost_at = [&](double length) {
      move(length);
      if (local != nullptr)
        return local->costs(x_, std::array{LocalCosts::Probe{group.blocks, group.unknowns, values}})
            .front();
      std::vector<double> there = x_;
      for (std::size_t j = 0; j < values.size(); ++j) there[group.unknowns[j]] = values[j];
      engine_.set_point(there);
      return engine_.cost();
    };
    const double cost = local != nullptr ? cost_at(0) : at_.cost;
    SaddleSearch search(cost, descent.curvature, least_of(cost));
    while (search.length() != 0) search.judge(cost_at(search.length()));
    if (search.best() == 0) return false;
    move(search.best());
    for (std::size_t j = 0; j < values.size(); ++j) x[group.unknowns[j]] = values[j];
    return true;
  }

  /// Along single unknowns.
  std::optional<ExactStep> step_beside(std::span<const std::uint32_t> vanished,
                                       std::span<const std::uint32_t> kinks) {
    std::vector<std::uint32_t> unknowns;
    std::ranges::set_union(vanished, kinks, std::back_inserter(unknowns));
    const LocalCosts local(problem_, unknowns);
    std::vector<double> columns(unknowns.size());
    for (std::size_t k = 0; k < unknowns.size() && !at_.nowhere; ++k)
      if (!std::ranges::binary_search(kinks, unknowns[k]))
        columns[k] = std::sqrt(squares_[unknowns[k]]);
    std::vector<double> x = x_;
    std::vector<std::uint32_t> open(unknowns.size());
    std::iota(open.begin(), open.end(), 0U);
    std::size_t left = std::max(kMostEvaluations * local.blocks(), kMostBlocks);
    bool found = false;
    for (std::size_t round = 0; round < kMostRounds && !open.empty(); ++round) {
      std::erase_if(open, [&](std::uint32_t k) {
        const std::size_t cost = kProbes * local.readers(k).size();
        const bool fits = cost != 0 && cost <= left;
        if (fits) left -= cost;
        return !fits;
      });
      found |= take_best(local, unknowns, columns, open, x);
    }
    return found ? taken(std::move(x)) : std::nullopt;
  }

  /// Moves x along those of the open unknowns that share no residual block, the largest gains
  /// first. Others with a gain stay open.
  bool take_best(const LocalCosts& local, std::span<const std::uint32_t> unknowns,
                 std::span<const double> columns, std::vector<std::uint32_t>& open,
                 std::vector<double>& x) const {
    const auto costs = [&](std::span<const BesideProbe> steps) {
      std::vector<double> values(steps.size());
      std::vector<LocalCosts::Probe> probes(steps.size());
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::uint32_t k = open[steps[i].unknown];
        values[i] = clamped(unknowns[k], x[unknowns[k]] + steps[i].step);
        probes[i] = {local.readers(k), unknowns.subspan(k, 1), std::span(values).subspan(i, 1)};
      }
      return local.costs(x, probes);
    };
    std::vector<BesideProbe> stay(open.size());
    for (std::uint32_t i = 0; i < open.size(); ++i) stay[i] = {i, 0};
    const std::vector<double> here = costs(stay);
    std::vector<BesideUnknown> asked(open.size());
    for (std::size_t i = 0; i < open.size(); ++i)
      asked[i] = {here[i], least_of(here[i]), columns[open[i]]};
    const std::vector<BesideStep> steps = steps_beside(asked, costs);
    std::vector<std::uint32_t> order(open.size());
    std::iota(order.begin(), order.end(), 0U);
    std::erase_if(order, [&](std::uint32_t i) { return steps[i].step == 0; });
    std::ranges::stable_sort(order, std::ranges::greater(), [&](auto i) { return steps[i].gain; });
    std::vector<bool> used(local.blocks());
    std::vector<std::uint32_t> later;
    for (const std::uint32_t i : order) {
      const std::uint32_t k = open[i];
      if (std::ranges::any_of(local.readers(k), [&](std::uint32_t b) { return used[b]; })) {
        later.push_back(k);
        continue;
      }
      for (const std::uint32_t block : local.readers(k)) used[block] = true;
      x[unknowns[k]] = clamped(unknowns[k], x[unknowns[k]] + steps[i].step);
    }
    const bool found = !order.empty();
    std::ranges::sort(later);
    open = std::move(later);
    return found;
  }

  runtime::Engine& engine_;
  const ProblemModel& problem_;
  const runtime::Model& model_;
  const EndFacts& at_;
  std::vector<double> x_, squares_;
};

}  // namespace

bool has_exact_model(runtime::Engine& engine, const ProblemModel& model) {
  return engine.abilities().second_derivatives != nullptr && is_expression(model) &&
         !model.problem->has_manifolds();
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

BesideEnd leave_saddle(runtime::Engine& engine, const ProblemModel& model, const EndFacts& at) {
  const bool known =
      is_expression(model) && (!model.problem->has_manifolds() || model.model.manifolds != nullptr);
  return known && at.cost > 0 ? Beside(engine, model, at).look() : BesideEnd();
}

}  // namespace topograd
