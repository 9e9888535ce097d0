// The Newton decrement and its step by second derivatives, and ways from saddles and kinks.
#include "exact_model.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../runtime/plan/passes.hpp"
#include "../../runtime/rows/rows.hpp"
#include "../step_control/convergence.hpp"
#include "../step_control/lost_columns.hpp"
#include "../step_control/negative_curvature.hpp"
#include "block_turns.hpp"
#include "local_costs.hpp"
#include "model.hpp"
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
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd {
namespace {

/// Unknowns, and all residual blocks that read one of them.
struct UnknownGroup {
  std::vector<std::uint32_t> unknowns;  ///< by scalar, ascending
  LocalCosts::Blocks blocks;
};

/// Divides unknowns around some of them into groups.
class Grouping {
 public:
  /// Arguments as in groups_around().
  Grouping(const LocalCosts& costs, std::span<const std::uint32_t> moving, std::size_t most)
      : costs_(costs),
        moving_(moving),
        most_(most),
        is_seed_(moving.size()),
        group_(moving.size()),
        owner_(costs.blocks()) {}

  std::vector<UnknownGroup> around(std::span<const std::uint32_t> seeds) {
    for (const std::uint32_t seed : seeds)
      if (const std::size_t k = number_of(seed); k < is_seed_.size()) is_seed_[k] = true;
    std::vector<UnknownGroup> out;
    for (const std::uint32_t seed : seeds) {
      UnknownGroup group;
      ++count_;
      if (!add(seed, group)) continue;
      grow(group, true);
      grow(group, false);
      std::ranges::sort(group.unknowns);
      std::ranges::sort(group.blocks);
      out.push_back(std::move(group));
    }
    return out;
  }

 private:
  /// Number of an unknown among those that move; the number of these for another one.
  std::size_t number_of(std::uint32_t scalar) const {
    const auto found = std::ranges::lower_bound(moving_, scalar);
    const bool moves = found != moving_.end() && *found == scalar;
    return static_cast<std::size_t>((moves ? found : moving_.end()) - moving_.begin());
  }

  /// False if the unknown does not move, is in a group, or shares blocks with another one.
  bool add(std::uint32_t scalar, UnknownGroup& group) {
    const std::size_t k = number_of(scalar);
    if (k == group_.size() || group_[k] != 0) return false;
    const std::span<const std::uint32_t> readers = costs_.readers(k);
    const auto is_taken = [&](std::uint32_t b) { return owner_[b] != 0 && owner_[b] != count_; };
    if (readers.empty() || std::ranges::any_of(readers, is_taken)) return false;
    group_[k] = count_;
    group.unknowns.push_back(scalar);
    for (const std::uint32_t block : readers)
      if (std::exchange(owner_[block], count_) == 0) group.blocks.push_back(block);
    return true;
  }

  void grow(UnknownGroup& group, bool by_seeds) {
    for (std::size_t b = 0; b < group.blocks.size(); ++b) {
      for (const std::uint32_t scalar : costs_.reads(group.blocks[b])) {
        if (group.unknowns.size() == most_) return;
        const std::size_t k = number_of(scalar);
        if (k < is_seed_.size() && (is_seed_[k] || !by_seeds)) add(scalar, group);
      }
    }
  }

  const LocalCosts& costs_;
  std::span<const std::uint32_t> moving_;
  std::size_t most_;
  std::vector<bool> is_seed_;         // by number
  std::vector<std::uint32_t> group_;  // by number; 0: none
  std::vector<std::uint32_t> owner_;  // by block: the group whose unknowns read it; 0: none
  std::uint32_t count_ = 0;
};

/// Groups of at most `most` unknowns around seeds; no residual block reads unknowns of two groups.
/// Each one begins at a seed, goes on with the seeds that share blocks with it, and then with other
/// unknowns of its blocks. Seeds that share blocks with a full group are in none.
///
///   costs   of `moving`
///   moving  unknowns that may be in a group, ascending
///   seeds   ascending
std::vector<UnknownGroup> groups_around(const LocalCosts& costs,
                                        std::span<const std::uint32_t> moving,
                                        std::span<const std::uint32_t> seeds, std::size_t most) {
  return Grouping(costs, moving, most).around(seeds);
}

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

/// The parts of a symmetric matrix that are those of groups of unknowns that share no residuals: a
/// product is by one unknown of each of them.
///
///   multiply  times a vector of all scalars
template <class Multiply>
std::vector<Eigen::MatrixXd> matrix_of(std::span<const UnknownGroup> groups, std::size_t all,
                                       const Multiply& multiply) {
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
    multiply(std::span<const double>(direction), std::span<double>(product));
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

std::vector<Eigen::MatrixXd> hessians_of(runtime::Engine& engine,
                                         std::span<const UnknownGroup> groups, std::size_t all) {
  return matrix_of(groups, all,
                   [&](auto p, auto out) { runtime::second_derivatives(engine).hvp(p, out); });
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
    if (at_.turns && problem_.problem->has_manifolds()) {
      if (std::optional<ExactStep> turned = turn()) return {std::move(turned), true};
      if (model_.manifolds == nullptr) return {};
    }
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
    std::optional<ExactStep> found = curve(vanished, vanished.empty() && kinks.empty());
    if (!found) found = step_beside(vanished, kinks);
    engine_.set_point(x_);
    return {.step = std::move(found), .looked = true};
  }

 private:
  std::optional<ExactStep> turn() {
    std::optional<std::vector<double>> x = turned_blocks(problem_, {.x = x_,
                                                                    .start = at_.start,
                                                                    .cost = at_.cost,
                                                                    .least = at_.least,
                                                                    .foretold = at_.foretold});
    if (!x) return std::nullopt;
    std::optional<ExactStep> step = taken(std::move(*x));
    engine_.set_point(x_);
    return step;
  }

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

  /// The gradient without entries that are rounding, whose signs press no unknown against a bound.
  std::vector<double> pressing(std::vector<double> gradient) const {
    const std::vector<double>& noise = at_.columns.noise;
    for (std::size_t k = 0; k < noise.size(); ++k)
      if (std::abs(gradient[k]) <= noise[k]) gradient[k] = 0;
    return gradient;
  }

  /// Along directions of negative curvature; `by_dependence`: only if columns depend on each other.
  std::optional<ExactStep> curve(std::span<const std::uint32_t> vanished, bool by_dependence) {
    if (!has_exact_model(engine_, problem_)) return std::nullopt;
    std::vector<double> gradient(x_.size());
    engine_.gradient(gradient);
    const std::vector<std::uint32_t> scalars = moving(model_, x_, pressing(gradient));
    std::optional<LocalCosts> local;
    std::vector<UnknownGroup> groups;
    if (scalars.size() <= kMostCurved) {
      groups.push_back({.unknowns = scalars, .blocks = {}});
    } else if (!vanished.empty() && count_reads() <= kMostReads) {
      local.emplace(problem_, scalars);
      groups = groups_around(*local, scalars, vanished, kMostCurved);
    }
    std::erase_if(groups, [](const UnknownGroup& group) { return group.unknowns.empty(); });
    Eigen::MatrixXd normal;
    if (by_dependence) {
      if (groups.empty() || local) return std::nullopt;
      normal =
          matrix_of(groups, x_.size(), [this](auto p, auto out) { engine_.jtjp(p, out); }).front();
      if (!normal.allFinite() || !has_dependent_columns(normal)) return std::nullopt;
    }
    const std::vector<Eigen::MatrixXd> hessians = hessians_of(engine_, groups, x_.size());
    std::vector<double> x = x_;
    bool found = false;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::vector<std::uint32_t>& unknowns = groups[g].unknowns;
      QuadraticModel here{.unknowns = unknowns,
                          .gradient = gather(gradient, unknowns),
                          .hessian = hessians[g],
                          .squares = Eigen::VectorXd::Zero(hessians[g].rows()),
                          .normal = at_.by_columns ? normal : Eigen::MatrixXd(),
                          .noise = {}};
      if (at_.by_columns && !squares_.empty()) here.squares = gather(squares_, unknowns);
      const auto descent = negative_curvature(here, at_.unit);
      if (!descent) continue;
      const LocalCosts* const costs = local ? &*local : nullptr;
      found |= search_along(groups[g], *descent, costs, x) ||
               search_in_planes(groups[g], here, costs, x);
    }
    return found ? taken(std::move(x)) : std::nullopt;
  }

  /// Looks along negative curvatures of two unknowns at a time. Where an entry of the Hessian is
  /// next to nothing beside its unknowns' own curvatures, as that of two factors whose product
  /// nothing asks for yet, the least eigenvalue of all leads too far along one of them.
  bool search_in_planes(const UnknownGroup& group, const QuadraticModel& all,
                        const LocalCosts* local, std::vector<double>& x) {
    constexpr std::size_t kMostPlanes = 16;
    // Exponents of the ratios of two steps that are tried where the curvature is that of their
    // product alone, which knows no units.
    constexpr int kMostExponent = 60, kExponentStep = 10;
    const Eigen::Index n = all.hessian.rows();
    const Eigen::VectorXd largest = all.hessian.cwiseAbs().rowwise().maxCoeff();
    struct Plane {
      Eigen::Index i, j;
      double share;  // of the entry in the largest ones of its rows
    };
    std::vector<Plane> planes;
    for (Eigen::Index i = 0; i < n; ++i)
      for (Eigen::Index j = 0; j < i; ++j)
        if (const double entry = all.hessian(i, j); entry != 0)
          planes.push_back({i, j, std::abs(entry / largest[i]) * std::abs(entry / largest[j])});
    std::ranges::stable_sort(planes, std::ranges::greater(), &Plane::share);
    planes.resize(std::min(planes.size(), kMostPlanes));
    for (const Plane& plane : planes) {
      const std::array<Eigen::Index, 2> at = {plane.i, plane.j};
      QuadraticModel part{.unknowns = {},
                          .gradient = all.gradient(at),
                          .hessian = all.hessian(at, at),
                          .squares = all.squares(at),
                          .normal = {},
                          .noise = {}};
      if (all.normal.size() > 0) part.normal = all.normal(at, at);
      const std::optional<NegativeCurvature> way = negative_curvature(part, at_.unit);
      if (!way) continue;
      const bool product = part.hessian(0, 0) == 0 && part.hessian(1, 1) == 0;
      const int most = product ? kMostExponent : 0;
      for (int k = 0; k <= 2 * most; k += kExponentStep) {
        const int exponent = k <= most ? k : most - k;
        NegativeCurvature there{.direction = Eigen::VectorXd::Zero(n), .curvature = way->curvature};
        there.direction[plane.i] = std::ldexp(way->direction[0], exponent);
        there.direction[plane.j] = std::ldexp(way->direction[1], -exponent);
        if (search_along(group, there, local, x)) return true;
      }
    }
    return false;
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
  return is_expression(model) && at.cost > 0 ? Beside(engine, model, at).look() : BesideEnd();
}

}  // namespace topograd
