// Descent within a box: which coordinates their bounds hold, and what is left of a gradient.
#pragma once

#include "control.hpp"
#include "objective.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd {

/// The active set of an objective with bounds; without them it does nothing.
///
/// Coordinates that the gradient pushes against a bound on which they are, or which they would
/// reach by less than rounding, are held: directions are made from the others alone, which keeps
/// the projection of the step a descent. Source: Bertsekas, Projected Newton Methods for
/// Optimization Problems with Simple Constraints (1982).
class Box {
 public:
  explicit Box(const Objective& objective);

  bool bounded() const { return objective_.bounded(); }
  /// Finds what is held at x, where the gradient is g.
  void look(std::span<const double> x, std::span<const double> g);
  /// By coordinate, 1: held. Empty without bounds.
  std::span<const std::uint8_t> held() const { return held_; }
  /// Held coordinates go to their bounds, and no farther.
  void finish(std::span<const double> x, std::span<double> direction) const;
  /// Norms of g, without the coordinates that it presses on the bound on which they are.
  GradientNorms norms(std::span<const double> x, std::span<const double> g) const;
  /// g·d over the coordinates which the projection lets move at x.
  double slope(std::span<const double> x, std::span<const double> g,
               std::span<const double> direction) const;

 private:
  /// The bound that a move of this sign leads to.
  double bound(std::size_t k, double move) const {
    return move < 0 ? objective_.lower[k] : objective_.upper[k];
  }

  const Objective& objective_;
  std::vector<std::uint8_t> held_;
};

}  // namespace topograd
