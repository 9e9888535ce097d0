// Units of unknowns in which all of them change the objective by the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../../runtime/engine/engine.hpp"
#include "../host/tangent_space.hpp"
#include "../model/model.hpp"

namespace topograd {

/// By scalar the square root of the objective's curvature along it, so that g / unit is independent
/// of the unit of the unknown: √Σ J² of residuals and |∂²e| of energies; where a cost has energies,
/// also the slope by the square root of the cost. The largest at the start is 1.
///
/// Units follow the point, but stay above a share of those at the start. Blocks on manifolds have
/// one unit.
class UnknownUnits {
 public:
  /// Both outlive it.
  UnknownUnits(const ProblemModel& model, const TangentSpace& space);

  /// Updates the units. Cost: the Jacobian of residuals, and the Hessians of energies if nothing is
  /// on a manifold or on the host.
  ///
  ///   engine    at the point
  ///   gradient  of the objective
  ///   cost      its size
  void measure(runtime::Engine& engine, std::span<const double> gradient, double cost);
  /// Some free unknowns still have no unit.
  bool missing() const;

  /// An entry of the constraints' Jacobian.
  struct Entry {
    std::size_t row = 0;
    std::uint32_t scalar = 0;
    double derivative = 0;
  };
  /// Gives an unknown without a unit the one in which it changes a row by as much as those of the
  /// objective do, and 1 to those that no such row reads.
  ///
  ///   rows     number of rows
  ///   entries  by row
  void fill(std::size_t rows, std::span<const Entry> entries);

  std::span<const double> now() const { return now_; }
  std::span<const double> first() const { return first_; }
  /// The largest at the start, which is 1 there, in the units of the objective; 0: it has no slope.
  double largest() const { return largest_; }

 private:
  bool is_free(std::size_t scalar) const { return space_.column(scalar) != TangentSpace::kNone; }
  std::vector<double> squares(runtime::Engine& engine) const;
  /// Gives the scalars of a block on a manifold the largest of theirs.
  void join_blocks(std::vector<double>& units) const;
  /// Gives units to unknowns without one in rows that also read others. Those do not pass theirs
  /// on: along a chain of equations units would be products of couplings.
  void pass_on(std::size_t rows, std::span<const Entry> entries);

  const ProblemModel& model_;
  const TangentSpace& space_;
  std::vector<double> now_, first_;  // 0: none
  std::vector<bool> filled_;         // by fill()
  double largest_ = 0;
};

}  // namespace topograd
