// Steps of single unknowns from points at which derivatives say nothing, by the cost itself.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace topograd {

/// An unknown whose derivatives say nothing at a point, and what reads it.
struct BesideUnknown {
  double cost = 0;   ///< at the point, of the residuals that read the unknown
  double least = 0;  ///< gain that counts, of this cost
  /// Norm of its column. Where the column explains what a step changes, the cost says no more than
  /// the gradient did. 0: it explains nothing.
  double column = 0;
};

/// A step of one of them, and its gain; 0: none.
struct BesideStep {
  double step = 0, gain = 0;
};

/// A step whose cost is asked for.
struct BesideProbe {
  std::uint32_t unknown;  ///< number among the unknowns
  double step;
};

/// Returns the costs, each of the residuals that read the unknown.
using CostsBeside = std::function<std::vector<double>(std::span<const BesideProbe> probes)>;

/// The best step of each unknown, the others where they are. At the kink of |x|, and at the zero
/// of x⁴, second derivatives say nothing either. Steps are as long as it takes to change the cost
/// by shares of it, so that units decide nothing: the exponent of their length is found by
/// bisection.
///
/// Cost: at most 42 probes for each unknown, in 13 calls.
std::vector<BesideStep> steps_beside(std::span<const BesideUnknown> unknowns,
                                     const CostsBeside& costs);

}  // namespace topograd
