// Escape from points where the gradient vanishes but the cost decreases on both sides.
#include "escape.hpp"

#include "../../ir/checking/random_program.hpp"
#include "control.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace topograd {
namespace {

constexpr double kDistance = 1e-3;  // times the root mean square of x
constexpr std::uint64_t kSeed = 1;
constexpr double kUnusable = std::numeric_limits<double>::quiet_NaN();

bool may_escape(const SolverOptions& options, const Summary& summary) {
  return summary.termination == Termination::CONVERGENCE &&
         summary.num_escapes < options.max_escapes &&
         summary.num_iterations() < options.max_iterations &&
         options.domain != DomainPolicy::strict;
}

/// Random numbers in [-length, length).
std::vector<double> direction_of(std::size_t size, double length, int escapes) {
  ir::Random random(kSeed + static_cast<std::uint64_t>(escapes));
  std::vector<double> out(size);
  for (double& v : out) v = length * random.between(-1, 1);
  return out;
}

struct Side {
  std::vector<double> x;
  double cost = 0;
  GradientNorms gradient;
};

Side look(const Objective& objective, std::span<const double> x, std::span<const double> step) {
  Side side{{x.begin(), x.end()}};
  objective.move(x, step, side.x);
  std::vector<double> gradient(objective.steps());
  side.cost = objective.evaluate(side.x, gradient);
  side.gradient = norms_of(gradient);
  if (!std::isfinite(side.cost) || !std::isfinite(side.gradient.max)) side.cost = kUnusable;
  return side;
}

}  // namespace

bool escape(const Objective& objective, std::span<double> x, const SolverOptions& options,
            Summary& summary) {
  if (!may_escape(options, summary)) return false;
  const double cost = summary.final_cost, norm = norm_of(x);
  const double length =
      kDistance * (norm > 0 ? norm / std::sqrt(static_cast<double>(x.size())) : 1.0);
  std::vector<double> step = direction_of(objective.steps(), length, summary.num_escapes);
  for (std::size_t k = 0; k < objective.constant.size(); ++k)
    if (objective.constant[k] != 0) step[k] = 0;
  const Side ahead = look(objective, x, step);
  for (double& s : step) s = -s;
  const Side behind = look(objective, x, step);
  const double fall = 2 * cost - ahead.cost - behind.cost;  // NaN if a side is unusable
  if (!(fall > 2 * cost_resolution(options, summary.initial_cost, cost))) return false;

  const Side& better = ahead.cost < behind.cost ? ahead : behind;
  std::copy(better.x.begin(), better.x.end(), x.begin());
  ++summary.num_escapes;
  return record_step_beside({.cost = better.cost,
                             .cost_change = cost - better.cost,
                             .step_norm = norm_of(step),
                             .evaluations = 2},
                            better.gradient, options, summary);
}

}  // namespace topograd
