// The growth of penalties.
#include "penalty_rule.hpp"

#include <algorithm>
#include <cmath>

namespace topograd {
namespace {

// The violation must fall to this share from one minimisation to the next, or μ grows.
constexpr double kEnoughProgress = 0.25;
// Above this share it has not fallen at all, and multipliers stay.
constexpr double kSomeProgress = 0.9;
constexpr double kPenaltyGrowth = 10;
// Growth of μ in vain before a problem may be called infeasible, and its factor meanwhile.
constexpr int kStalls = 5;
constexpr double kStalledGrowth = 100;
// Range of the first μ, and its upper end where there are many inequalities: it falls with the
// square of their number from `kManyRows` on. Measured on meshes in contact (docs/notes/steps.md).
constexpr double kLeastPenalty = 1e-3, kLargestFirstPenalty = 300;
constexpr double kManyRows = 1000, kLargestOfMany = 1;

double largest_first(std::size_t inequalities) {
  const double share = kManyRows / std::max(kManyRows, static_cast<double>(inequalities));
  return std::max(kLargestOfMany, kLargestFirstPenalty * share * share);
}

}  // namespace

void PenaltyRule::start(double asked, double cost, double squared_violation,
                        std::size_t inequalities) {
  mu = asked > 0
           ? asked
           : std::clamp(10 * std::max(1.0, std::abs(cost)) / std::max(1.0, squared_violation / 2),
                        kLeastPenalty, largest_first(inequalities));
}

bool PenaltyRule::look(double violation, double met, bool solved) {
  const bool some = violation <= std::max(kSomeProgress * best, met);
  stalls = some ? 0 : stalls + 1;
  if (solved && violation > std::max(kEnoughProgress * before, met))
    mu = std::max(mu, std::min(largest, mu * (stalls < 2 ? kPenaltyGrowth : kStalledGrowth)));
  before = violation;
  if (violation > 0) best = std::min(best, violation);
  return some;
}

bool PenaltyRule::in_vain() const { return stalls >= kStalls; }

}  // namespace topograd
