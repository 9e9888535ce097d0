// The linear model of a sum of squares at a point, for the minimisers of scalar functions: the
// units of its unknowns, and a step that shows what a gradient may not.
#pragma once

#include "../../ir/machine/state_record.hpp"
#include "../model/model.hpp"
#include "../session/engines.hpp"
#include "objective.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace topograd {

/// Reads the Jacobian J of a problem's residuals, which costs about two gradients.
class RowModel {
 public:
  /// Both outlive it.
  ///
  ///   on_manifolds  steps are in tangents
  RowModel(Engines& engines, const ProblemModel& problem, Precision precision, bool on_manifolds);

  /// False if steps are in tangents, or !exists_for(): then there are no scales and no steps.
  bool exists() const { return exists_; }
  /// False if the cost is not a sum of squares of rows that this process has.
  static bool exists_for(const ProblemModel& problem);

  /// Makes the scales those of the largest ‖J_i‖ of the solve so far, x included. An unknown
  /// without a derivative so far has that of the steepest one.
  void look(std::span<const double> x);
  /// look(), after 0, 1, 2, 4, 8, … calls; not after 0 where look() was called before.
  void look_now_and_then(std::span<const double> x);
  /// 1/‖J_i‖² by scalar. Empty while the norms of all columns are within a factor of 100: then the
  /// scales make no difference worth their cost.
  std::span<const double> scales() const { return scales_; }
  /// Has no scales from now on.
  void drop_scales();

  /// Gauss–Newton's step at x with the gradient g, in which nearly dependent directions are left
  /// out; for problems for which it takes long, the step in the negative gradient, each coordinate
  /// divided by its ‖J_i‖². Coordinates with g_i = 0 stay. Empty if there is none. Looks at x.
  std::vector<double> step(std::span<const double> x, std::span<const double> g);
  /// √Σ (‖J_i‖ x_i)², where step() looked last.
  double terms() const { return terms_; }

  /// Saves or restores the scales.
  void transfer(ir::StateRecord& record);

 private:
  /// Calls visit(row, scalar, value) for all entries of J, by term.
  template <class Visit>
  void visit_entries(std::span<const double> x, const Visit& visit);
  /// look(); returns ‖J_i‖² at x by scalar.
  std::vector<double> squared_norms(std::span<const double> x);
  void find_scales();

  Engines& engines_;
  const runtime::Model& model_;
  Precision precision_;
  bool exists_;
  std::vector<double> squares_;  // largest ‖J_i‖² so far
  std::vector<double> scales_;
  double terms_ = 0;
  bool dropped_ = false;
  std::uint64_t calls_ = 0;  // of look_now_and_then()
};

/// What a step must gain.
struct LeastGain {
  double change = 0;  ///< at least
  double zero = 0;    ///< and a cost that counts as zero, if rounding of J x can hide it
  double factor = 1;  ///< times the larger of these
};

/// A step that lowers the cost of a descent which has ended: one of the row model's, or a part of
/// it, if it gains more than `least`. Moves x there and records it as a step. True if it did, and
/// nothing ended the solve.
bool improve(RowModel& rows, const Objective& objective, const LeastGain& least,
             std::span<double> x, const SolverOptions& options, Summary& summary);

}  // namespace topograd
