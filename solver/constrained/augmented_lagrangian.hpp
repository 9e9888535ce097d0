// The augmented Lagrangian: multipliers and penalties around another method.
#pragma once

#include "constrained_run.hpp"
#include "penalty_rule.hpp"

#include <span>
#include <vector>

namespace topograd {

/// Minimises f subject to c = 0 and c >= 0 by the augmented Lagrangian
/// f + Σ ½ ‖w (s − c)‖², w = √μ, s = λ / μ (frontend/state/constraint_program.hpp).
///
/// After each minimisation λ becomes μ (s − c), or 0 where that is negative, if the violation fell;
/// if it did not fall to a quarter, μ grows. Inner tolerances follow. A violation that μ does not
/// reduce at a stationary point of its own ends the solve with Termination::INFEASIBLE.
///
/// Source: Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 17.4; Conn, Gould, Toint,
/// LANCELOT (1992); the rule for μ and its first value: Birgin & Martínez, Practical Augmented
/// Lagrangian Methods (2014), chapters 4 and 12.
class AugmentedLagrangian {
 public:
  /// All of these outlive it. The model has ConstraintTerms::penalties.
  AugmentedLagrangian(Problem& problem, const ProblemModel& model, const SolverOptions& options,
                      Summary& summary, InnerSolves& inner)
      : run_(problem, model, options, summary, inner) {}

  /// Fills in costs, termination, message and Summary::constrained.
  void run();

 private:
  void start();
  void set_multipliers();
  void look();
  void update();
  bool converged();
  bool infeasible();

  ConstrainedRun run_;
  PenaltyRule rule_;
  std::vector<double> lambda_, shift_;  // by row: as they are in the present penalties
  double bound_ = 0;                    // of the next minimisation's gradient
  double progress_ = 0;                 // max |min(c, λ / μ)| after the last minimisation
};

}  // namespace topograd
