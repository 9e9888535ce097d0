// Unknowns that have moved to where they no longer change the residuals.
#pragma once

#include "../../runtime/model/model.hpp"
#include "step_rules.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::ir {
class StateRecord;
}

namespace topograd {

/// Judges ends of least squares at which columns of the Jacobian have vanished.
///
/// A step may carry an unknown out to a plateau: far out, b of a exp(−b t) changes nothing, and the
/// gradient is zero there although the minimum is elsewhere. No number at that point shows it. So
/// the minimisation goes on from there with such unknowns put back to where they began, where they
/// had columns, and the better of both ends counts.
///
/// No decision depends on the units of unknowns and residuals, or on the origin of unknowns.
class LostColumns {
 public:
  /// The column of an unknown may have vanished: over all the way that the unknown has moved, it
  /// would change the residuals by less than their rounding.
  ///
  ///   square  of the norm of the column
  ///   moved   difference of the unknown from the start
  ///   cost    ½‖r‖²
  static bool may_be_lost(double square, double moved, double cost);
  /// The column has vanished at the point: an unknown that changes by its own size, or by all the
  /// way that it has moved, would change the residuals by less than their rounding. So it is at the
  /// zero of a square, which may be a saddle.
  ///
  ///   size  the larger of both
  static bool has_vanished(double square, double size, double cost);
  /// Least second derivative of the cost by such an unknown that makes the way back to the start
  /// cost more than this share of the cost: then the column has vanished at a minimum.
  ///
  ///   moved, cost  as above
  static double least_curvature(double moved, double cost, double share) {
    return 2 * share * cost / (moved * moved);
  }
  /// The column has vanished beside what it is where the unknown began.
  ///
  ///   squares  of the norm of the column
  static bool is_lost(double square, double square_at_start);

  /// The minimisation may go on from such a point once more.
  bool may_turn() const { return turns_ < kMostTurns; }
  /// The minimisation has ended at such a point with a verdict, or is stuck there
  /// (End::lost_columns), and goes on.
  ///
  ///   at_start  with all unknowns where they began
  void turn(double cost, const Verdict& verdict, bool at_start);
  /// How often steps from there begin shorter (StepRules::begin_short()): it grows when a
  /// minimisation has ended on the plateau again.
  int shortness() const { return shortness_; }
  /// It has gone on, and has not ended since.
  bool is_open() const { return open_; }
  /// It has ended again. Returns true if this end counts, false if the one before; verdict() is
  /// that of the one that counts. Where both are on one plateau, the minimisation is to turn once
  /// more, with shorter steps, as long as it may.
  ///
  ///   verdict  End::none: it was ended from outside
  ///   lost     columns have vanished there, too
  ///   share    of the cost, by which both ends may differ if they are the same
  bool settle(double cost, const Verdict& verdict, bool lost, double share);
  const Verdict& verdict() const { return verdict_; }
  void transfer(ir::StateRecord& record);

 private:
  static constexpr int kMostTurns = 3;

  int turns_ = 0, shortness_ = 0;
  bool open_ = false;
  double cost_ = 0;  // of the end before
  Verdict verdict_;
};

/// Returns the unknowns that are not fixed.
std::vector<std::uint32_t> moving_unknowns(const runtime::Model& model);
/// Returns the unknowns that are not fixed and whose columns have vanished at x.
///
///   squares  of the norms of the columns
std::vector<std::uint32_t> vanished_columns(const runtime::Model& model,
                                            std::span<const double> squares,
                                            std::span<const double> x,
                                            std::span<const double> start, double cost);

}  // namespace topograd
