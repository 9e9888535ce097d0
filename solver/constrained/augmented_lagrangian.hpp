// The augmented Lagrangian: multipliers and penalties around another method.
#pragma once

#include "constrained_run.hpp"

#include <limits>
#include <span>
#include <vector>

namespace topograd {

/// Minimises f subject to c = 0 and c >= 0 by the augmented Lagrangian
/// f + Σ ½ ‖w (s − d c)‖², w = √μ, s = λ / (μ d) (frontend/state/blocks.hpp). d makes
/// the rows' gradients of length 1, so that units of constraints change nothing.
///
/// After each minimisation λ becomes μ d (s − d c), or 0 where that is negative, if the violation
/// fell; if it did not fall to a quarter although the minimisation reached its tolerance, or came
/// as near to it as rounding allows, μ grows. A large first μ that was asked for falls to the one
/// that would be chosen, where minimisations use up their steps in vain. Each minimisation must
/// reduce its gradient to a tenth at least. Where rows are met, but the gradient is not small
/// because x cannot be rounded finely enough for λ = μ d (s − d c), λ are fitted to the gradient. A
/// violation that μ does not reduce at a stationary point of its own ends the solve with
/// Termination::INFEASIBLE; if an earlier point met every constraint, the solve goes back there and
/// on with a larger first μ.
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
  void minimize();
  void update();
  void go_on();
  bool in_vain() const;
  bool may_go_back() const;
  void go_back();
  bool bound_penalty();
  bool lower_penalty(double least);
  void balance(std::vector<double> gradient);
  bool converged();
  bool infeasible();
  void leave_multipliers();

  ConstrainedRun run_;
  PenaltyRule rule_;
  std::vector<double> lambda_, shift_;  // by row: as they are in the present penalties
  std::vector<double> c_;               // by row
  double bound_ = 0;                    // of the next minimisation's gradient
  double begin_ = 0, reached_ = 0;      // max |gradient| where a minimisation begins, and ended
  double chosen_ = 0;                   // the first μ, where none is asked for
  double ceiling_ = std::numeric_limits<double>::infinity();  // of μ after it has fallen
  double first_ = 0;        // μ after the start, or after the last way back
  int returns_ = 0;         // ways back to a point that met every constraint
  bool retreated_ = false;  // μ has fallen because rounding ended a minimisation
  int failed_ = 0;          // minimisations in a row that used up their steps in vain
  double progress_ = 0;  // max d |min(c, λ / (μ d²))| of the rows that are not met; 0: all are
};

}  // namespace topograd
