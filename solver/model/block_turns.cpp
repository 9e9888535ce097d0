// Curvatures of costs along the tangents of single blocks, and the search along negative ones.
#include "block_turns.hpp"

#include "../../frontend/problem.hpp"
#include "../step_control/negative_curvature.hpp"
#include "local_costs.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace topograd {
namespace {

// Distance of the points whose costs are compared, in units of the block.
constexpr double kApart = 1e-3;
// Relative error of such curvatures, that of the next terms of the series, a few times.
constexpr double kErrorOfCurvature = 10 * kApart * kApart;
// Rounding of such differences, in units of that of the cost.
constexpr double kRounding = 1e3;
// A block has moved if a number of it has by this share of the largest one.
constexpr double kMoved = 1e-3;
// Evaluations of residual blocks that may be made in small problems, too.
constexpr std::size_t kFewEvaluations = 1024;
// Residual blocks that stand for all that read a block, and most tangents of a block.
constexpr std::size_t kMostReaders = 512;
constexpr int kMostTangents = 16;

/// A block on a manifold that moves.
struct Block {
  std::uint32_t first = 0, width = 0;  ///< in x
  const Manifold* manifold = nullptr;
  LocalCosts::Blocks readers = {};  ///< residual blocks that read it, or some of many
  double share = 1;                 ///< of all that read it
  double cost = 0;                  ///< of these
};

bool has_moved(std::span<const double> x, std::span<const double> start, const Block& block) {
  if (start.empty()) return false;
  double largest = 0, change = 0;
  for (std::uint32_t k = block.first; k < block.first + block.width; ++k) {
    largest = std::max(largest, std::abs(x[k]));
    change = std::max(change, std::abs(x[k] - start[k]));
  }
  return change > kMoved * largest;
}

std::vector<Block> moving_blocks(const ProblemModel& problem, const TurnFacts& at) {
  std::vector<Block> out;
  const auto& arrays = problem.problem->arrays();
  const std::vector<std::uint8_t>& constant = problem.model.constant;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    for (std::uint32_t b = 0; b < arrays[a].blocks; ++b) {
      Block block{.first = arrays[a].offset + b * arrays[a].width,
                  .width = arrays[a].width,
                  .manifold = problem.problem->manifold(a, b)};
      if (block.manifold == nullptr || block.manifold->tangent_size() == 0 ||
          block.manifold->tangent_size() > kMostTangents)
        continue;
      const auto scalars = std::span(constant).subspan(constant.empty() ? 0 : block.first,
                                                       constant.empty() ? 0 : block.width);
      const bool held = std::ranges::any_of(scalars, [](std::uint8_t c) { return c != 0; });
      if (!held && !(at.foretold && has_moved(at.x, at.start, block))) out.push_back(block);
    }
  }
  return out;
}

/// The points around a block, in units of its tangents.
class Surroundings {
 public:
  Surroundings(const Block& block, std::span<const double> x)
      : block_(block),
        x_(x.subspan(block.first, block.width)),
        units_(Eigen::VectorXd::Zero(block.manifold->tangent_size())) {
    const Eigen::Index tangents = units_.size();
    std::vector<double> basis(static_cast<std::size_t>(block.width) *
                              static_cast<std::size_t>(tangents));
    if (!block.manifold->plus_jacobian(x_.data(), basis.data())) return;
    for (Eigen::Index t = 0; t < tangents; ++t) {
      double size = 0, speed = 0;  // of the numbers that the tangent moves
      for (std::uint32_t k = 0; k < block.width; ++k) {
        const double entry = basis[static_cast<std::size_t>(k * tangents + t)];
        speed = std::max(speed, std::abs(entry));
        if (entry != 0) size = std::max(size, std::abs(x_[k]));
      }
      if (speed > 0) units_[t] = kApart * (size > 0 ? size / speed : 1);
    }
  }

  Eigen::Index tangents() const { return units_.size(); }
  bool exist() const { return units_.maxCoeff() > 0 && units_.allFinite(); }
  /// x ⊞ δ, with δ in these units; empty if the manifold refuses.
  std::vector<double> at(const Eigen::VectorXd& delta) const {
    const Eigen::VectorXd step = units_.cwiseProduct(delta);
    std::vector<double> out(x_.size());
    if (!block_.manifold->plus(x_.data(), step.data(), out.data())) out.clear();
    return out;
  }

 private:
  const Block& block_;
  std::span<const double> x_;
  Eigen::VectorXd units_;  // by tangent; 0: nothing moves
};

/// The search for blocks to turn.
class Turns {
 public:
  Turns(const ProblemModel& problem, const TurnFacts& at, std::vector<Block> blocks)
      : at_(at),
        blocks_(std::move(blocks)),
        scalars_(all_scalars(blocks_)),
        local_(problem, scalars_) {
    find_readers();
  }

  std::optional<std::vector<double>> look() {
    drop_small();
    std::vector<Turn> turns;
    for (const Points& around : points())
      if (std::optional<Turn> turn = turn_of(around)) turns.push_back(std::move(*turn));
    std::ranges::stable_sort(turns, std::ranges::greater(), &Turn::gain);
    std::vector<bool> used(local_.blocks());
    std::vector<double> x(at_.x.begin(), at_.x.end());
    for (const Turn& turn : turns) {
      const LocalCosts::Blocks& readers = turn.block->readers;
      if (std::ranges::any_of(readers, [&](std::uint32_t r) { return used[r]; })) continue;
      for (const std::uint32_t r : readers) used[r] = true;
      std::ranges::copy(turn.values, x.begin() + turn.block->first);
    }
    if (turns.empty()) return std::nullopt;
    return x;
  }

 private:
  struct Turn {
    const Block* block;
    std::vector<double> values;
    double gain;
  };

  static std::vector<std::uint32_t> all_scalars(std::span<const Block> blocks) {
    std::vector<std::uint32_t> out;
    for (const Block& block : blocks)
      for (std::uint32_t k = 0; k < block.width; ++k) out.push_back(block.first + k);
    std::ranges::sort(out);
    return out;
  }

  void find_readers() {
    for (Block& block : blocks_) {
      const auto k = static_cast<std::size_t>(scalars_of(block).data() - scalars_.data());
      for (std::size_t j = k; j < k + block.width; ++j) {
        const std::span<const std::uint32_t> readers = local_.readers(j);
        block.readers.insert(block.readers.end(), readers.begin(), readers.end());
      }
      std::ranges::sort(block.readers);
      block.readers.erase(std::unique(block.readers.begin(), block.readers.end()),
                          block.readers.end());
      take_some(block);
    }
  }

  static void take_some(Block& block) {
    LocalCosts::Blocks& readers = block.readers;
    const std::size_t all = readers.size(), step = (all + kMostReaders - 1) / kMostReaders;
    if (step <= 1) return;
    std::size_t some = 0;
    for (std::size_t k = 0; k < all; k += step) readers[some++] = readers[k];
    readers.resize(some);
    block.share = static_cast<double>(some) / static_cast<double>(all);
  }

  std::span<const std::uint32_t> scalars_of(const Block& block) const {
    const auto first = std::ranges::lower_bound(scalars_, block.first);
    return {first, first + block.width};
  }

  /// The cost of what reads the block, with these numbers of it.
  double cost_of(const Block& block, std::span<const double> values) const {
    const LocalCosts::Probe probe{block.readers, scalars_of(block), values};
    return local_.costs(at_.x, {&probe, 1}).front();
  }

  /// Leaves the blocks that may gain enough, those with the largest costs.
  void drop_small() {
    LocalCosts::Blocks all;
    for (const Block& block : blocks_)
      all.insert(all.end(), block.readers.begin(), block.readers.end());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::vector<LocalCosts::Probe> probes;
    probes.reserve(all.size());
    for (const std::uint32_t& reader : all) probes.push_back({{&reader, 1}, {}, {}});
    const std::vector<double> here = local_.costs(at_.x, probes);
    for (Block& block : blocks_) {
      auto at = all.begin();
      for (const std::uint32_t reader : block.readers) {
        at = std::lower_bound(at, all.end(), reader);
        block.cost += here[static_cast<std::size_t>(at - all.begin())];
      }
    }
    std::erase_if(blocks_, [&](const Block& block) { return !(block.cost > least_of(block)); });
    std::ranges::stable_sort(blocks_, std::ranges::greater(),
                             [](const Block& block) { return block.cost / block.share; });
    std::size_t left = std::max(kFewEvaluations, local_.blocks());
    bool first = true;
    const auto end = std::ranges::find_if(blocks_, [&](const Block& block) {
      const auto t = static_cast<std::size_t>(block.manifold->tangent_size());
      const std::size_t cost = t * (t + 1) * block.readers.size();
      const bool fits = cost <= left;
      left -= std::min(cost, left);
      return !std::exchange(first, false) && !fits;
    });
    blocks_.erase(end, blocks_.end());
  }

  double least_of(const Block& block) const { return block.share * at_.least; }

  /// Points around a block: ± e_i and ± (e_i + e_j) in its tangents, and their costs.
  struct Points {
    const Block* block;
    Surroundings around;
    std::vector<std::vector<double>> values = {};
    std::vector<double> costs = {};
  };

  static std::optional<Points> points_of(const Block& block, std::span<const double> x) {
    Points out{.block = &block, .around = Surroundings(block, x)};
    if (!out.around.exist()) return std::nullopt;
    const Eigen::Index n = out.around.tangents();
    for (Eigen::Index i = 0; i < n; ++i) {
      for (Eigen::Index j = 0; j <= i; ++j) {
        for (const double sign : {1.0, -1.0}) {
          Eigen::VectorXd delta = Eigen::VectorXd::Zero(n);
          delta[i] = delta[j] = sign;
          out.values.push_back(out.around.at(delta));
          if (out.values.back().empty()) return std::nullopt;
        }
      }
    }
    return out;
  }

  /// All of them at once: each call prepares programs.
  std::vector<Points> points() const {
    std::vector<Points> out;
    std::vector<LocalCosts::Probe> probes;
    for (const Block& block : blocks_)
      if (std::optional<Points> of_block = points_of(block, at_.x))
        out.push_back(std::move(*of_block));
    for (const Points& of_block : out)
      for (const std::vector<double>& values : of_block.values)
        probes.push_back({of_block.block->readers, scalars_of(*of_block.block), values});
    const std::vector<double> costs = local_.costs(at_.x, probes);
    auto next = costs.begin();
    for (Points& of_block : out) {
      of_block.costs.assign(next, next + static_cast<std::ptrdiff_t>(of_block.values.size()));
      next += static_cast<std::ptrdiff_t>(of_block.values.size());
    }
    return out;
  }

  /// The least curvature of the block's cost, by differences; none unless it is negative beyond
  /// their error.
  static std::optional<NegativeCurvature> curvature_of(const Points& points) {
    const std::vector<double>& cost = points.costs;
    const double here = points.block->cost;
    if (!std::ranges::all_of(cost, [](double c) { return std::isfinite(c); })) return std::nullopt;
    const auto number = [](Eigen::Index i, Eigen::Index j) {
      return static_cast<std::size_t>(i * (i + 1) + 2 * j);
    };
    // Returns f(δ) + f(−δ) − 2 f(0), where δ is e_i + e_j, or e_i if i is j.
    const auto bend = [&](Eigen::Index i, Eigen::Index j) {
      const std::size_t at = number(i, j);
      return (cost[at] - here) + (cost[at + 1] - here);
    };
    const Eigen::Index n = points.around.tangents();
    Eigen::VectorXd gradient(n);
    Eigen::MatrixXd hessian(n, n);
    for (Eigen::Index i = 0; i < n; ++i) {
      gradient[i] = (cost[number(i, i)] - cost[number(i, i) + 1]) / 2;
      hessian(i, i) = bend(i, i);
      for (Eigen::Index j = 0; j < i; ++j)
        hessian(i, j) = hessian(j, i) = (bend(i, j) - bend(i, i) - bend(j, j)) / 2;
    }
    const double error =
        static_cast<double>(n) * std::max(kRounding * std::numeric_limits<double>::epsilon() * here,
                                          kErrorOfCurvature * hessian.cwiseAbs().maxCoeff());
    return least_curvature(hessian, gradient, -error);
  }

  std::optional<Turn> turn_of(const Points& points) const {
    const Block& block = *points.block;
    const std::optional<NegativeCurvature> descent = curvature_of(points);
    if (!descent) return std::nullopt;
    SaddleSearch search(block.cost, descent->curvature, least_of(block));
    const auto at = [&](double length) { return points.around.at(length * descent->direction); };
    while (search.length() != 0) {
      const std::vector<double> values = at(search.length());
      search.judge(values.empty() ? std::numeric_limits<double>::infinity()
                                  : cost_of(block, values));
    }
    if (search.best() == 0) return std::nullopt;
    std::vector<double> values = at(search.best());
    const double gain = block.cost - cost_of(block, values);
    return Turn{&block, std::move(values), gain / block.share};
  }

  const TurnFacts& at_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> scalars_;  // of these, ascending
  LocalCosts local_;
};

}  // namespace

std::optional<std::vector<double>> turned_blocks(const ProblemModel& problem, const TurnFacts& at) {
  std::vector<Block> blocks = moving_blocks(problem, at);
  if (blocks.empty()) return std::nullopt;
  return Turns(problem, at, std::move(blocks)).look();
}

}  // namespace topograd
