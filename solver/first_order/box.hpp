// Descent within a box: coordinates held by their bounds, and the projected gradient.
#pragma once

#include "control.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd {

/// The active set of an objective with bounds; without them it does nothing.
///
/// A coordinate is held if the gradient pushes it against a bound that it is on, or would reach by
/// less than rounding. Directions are made from the other coordinates alone, so that the projection
/// of the step is a descent. Source: Bertsekas, Projected Newton Methods for Optimization Problems
/// with Simple Constraints (1982).
class Box {
 public:
  explicit Box(const Objective& objective);

  bool bounded() const { return objective_.bounded(); }
  /// Finds the held coordinates at x with gradient g.
  void look(std::span<const double> x, std::span<const double> g);
  /// By coordinate, 1: held. Empty without bounds.
  std::span<const std::uint8_t> held() const { return held_; }
  /// Sets the direction of held coordinates so that they end on their bounds.
  void finish(std::span<const double> x, std::span<double> direction) const;
  /// The length of a step along the direction beyond which the projection no longer moves; infinity
  /// if a coordinate has no bound there.
  double longest(std::span<const double> x, std::span<const double> direction) const;
  /// Norms of g without the coordinates that it pushes against their bounds.
  GradientNorms norms(std::span<const double> x, std::span<const double> g) const;
  /// Makes these coordinates of g 0.
  void project(std::span<const double> x, std::span<double> g) const;
  /// g·d over the coordinates that the projection lets move at x.
  double slope(std::span<const double> x, std::span<const double> g,
               std::span<const double> direction) const;

 private:
  /// The bound in the direction of this move.
  double bound(std::size_t k, double move) const {
    return move < 0 ? objective_.lower[k] : objective_.upper[k];
  }

  const Objective& objective_;
  std::vector<std::uint8_t> held_;
};

}  // namespace topograd
