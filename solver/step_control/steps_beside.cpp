// Bisection of the lengths of steps beside a point.
#include "steps_beside.hpp"

#include <array>
#include <cmath>

namespace topograd {
namespace {

// Share of the cost by which a step changes it, and the exponent of the longest one.
constexpr double kBeside = 1e-4;
constexpr int kLongest = 1000;
// Change of the residuals by a column along such a step, as a share of them, that explains it.
constexpr double kExplained = 1e-2 * kBeside;
// Lengths that are tried, in units of the one that changes the cost.
constexpr std::array<double, 9> kLengths = {0x1p12, 0x1p9,  0x1p6,  0x1p3,  1,
                                            0x1p-2, 0x1p-4, 0x1p-7, 0x1p-10};

/// The search for a power of two from which on a step to one side changes the cost.
struct Side {
  std::uint32_t unknown;
  double sign;
  int low = -kLongest, high = kLongest;  // no change, and a change

  double length(int exponent) const { return sign * std::ldexp(1.0, exponent); }
  int middle() const { return (low + high) / 2; }
  bool is_open() const { return high - low > 1; }
};

bool changes(const BesideUnknown& unknown, double cost) {
  return !(std::abs(cost - unknown.cost) <= kBeside * unknown.cost);
}

/// Asks for the costs at steps of some sides.
template <class Length>
std::vector<double> ask(const CostsBeside& costs, std::span<const Side> sides,
                        const Length& length) {
  std::vector<BesideProbe> probes;
  probes.reserve(sides.size());
  for (const Side& side : sides) probes.push_back({side.unknown, length(side)});
  return probes.empty() ? std::vector<double>() : costs(probes);
}

/// Sides to which the cost changes, with the length from which on it does.
std::vector<Side> find_lengths(std::span<const BesideUnknown> unknowns, const CostsBeside& costs) {
  std::vector<Side> sides, far;
  for (std::uint32_t k = 0; k < unknowns.size(); ++k)
    for (const double sign : {1.0, -1.0})
      if (unknowns[k].cost > 0) far.push_back({k, sign});
  const std::vector<double> there =
      ask(costs, far, [](const Side& side) { return side.length(kLongest); });
  for (std::size_t i = 0; i < far.size(); ++i)
    if (changes(unknowns[far[i].unknown], there[i])) sides.push_back(far[i]);
  // All intervals are equally long.
  while (!sides.empty() && sides.front().is_open()) {
    const std::vector<double> cost =
        ask(costs, sides, [](const Side& side) { return side.length(side.middle()); });
    for (std::size_t i = 0; i < sides.size(); ++i) {
      Side& side = sides[i];
      (changes(unknowns[side.unknown], cost[i]) ? side.high : side.low) = side.middle();
    }
  }
  return sides;
}

}  // namespace

std::vector<BesideStep> steps_beside(std::span<const BesideUnknown> unknowns,
                                     const CostsBeside& costs) {
  std::vector<BesideProbe> probes;
  for (const Side& side : find_lengths(unknowns, costs)) {
    const BesideUnknown& unknown = unknowns[side.unknown];
    const double length = side.length(side.high);
    if (unknown.column * std::abs(length) > kExplained * std::sqrt(2 * unknown.cost)) continue;
    for (const double part : kLengths) probes.push_back({side.unknown, part * length});
  }
  const std::vector<double> there = probes.empty() ? std::vector<double>() : costs(probes);
  std::vector<BesideStep> out(unknowns.size());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const BesideUnknown& unknown = unknowns[probes[i].unknown];
    BesideStep& best = out[probes[i].unknown];
    const double gain = unknown.cost - there[i];
    if (gain > unknown.least && gain > best.gain) best = {probes[i].step, gain};
  }
  return out;
}

}  // namespace topograd
