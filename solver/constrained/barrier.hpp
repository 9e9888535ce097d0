// The barrier method: inequalities that hold at every point of a solve.
#pragma once

#include "constrained_run.hpp"

#include <span>
#include <vector>

namespace topograd {

/// Minimises f subject to c >= 0 by f − μ Σ log c from a start where c > 0, along the path of the
/// minimisers while μ falls; equalities are those of an augmented Lagrangian beside it.
///
/// Every accepted point has c > 0: elsewhere the cost is not finite, and line searches cut steps
/// back. Multipliers are μ / c. The next minimisation starts where the path through the last two
/// minimisers leads, if c stays positive there: without that, Newton's first step after a change of
/// μ leaves the feasible set by a multiple of c.
///
/// Source: Fiacco & McCormick, Nonlinear Programming: Sequential Unconstrained Minimization
/// Techniques (1968), chapters 3 and 5; Nocedal & Wright, Numerical Optimization, 2nd ed., section
/// 19.6.
class Barrier {
 public:
  /// All of these outlive it. The model has ConstraintTerms::barriers.
  Barrier(Problem& problem, const ProblemModel& model, const SolverOptions& options,
          Summary& summary, InnerSolves& inner)
      : run_(problem, model, options, summary, inner) {}

  /// Fills in costs, termination, message and Summary::constrained.
  void run();

 private:
  bool start();
  bool refuse_outside();
  double first_barrier(std::vector<double> objective);
  void set_numbers();
  void look();
  void look_at_rows(std::span<const double> values);
  bool is_active(std::size_t row) const;
  void sharpen(std::vector<double>& gradient);
  void balance(std::vector<double> gradient);
  double least_barrier() const;
  bool converged();
  bool holds_violation() const;
  bool infeasible();
  void update();
  std::vector<double> ahead(double length) const;
  void extrapolate(double before, double after);
  bool inside(std::span<const double> x, double share);
  void leave_multipliers();

  ConstrainedRun run_;
  PenaltyRule rule_;            // of the equalities
  std::vector<double> c_;       // by row, at the point of the last look()
  std::vector<double> shift_;   // by row: of Penalties
  std::vector<double> lambda_;  // by row: of the equalities, in the present penalties
  std::vector<double> last_;    // the minimiser before the present one; empty: none
  double last_mu_ = 0;          // of it
  double mu_ = 0;               // of the barrier
  double begin_ = 0;            // max |gradient| where it begins
  double bound_ = 0;            // of the next minimisation's gradient
  double progress_ = 0;         // largest violation of an equality after the last minimisation
  bool has_inequalities_ = false, has_equalities_ = false;
};

}  // namespace topograd
