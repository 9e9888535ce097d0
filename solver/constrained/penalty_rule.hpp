// When multipliers and penalties of an augmented Lagrangian change.
#pragma once

#include <cstddef>
#include <limits>

namespace topograd {

/// μ of an augmented Lagrangian, and how fast the violation falls.
///
/// Source: Birgin & Martínez, Practical Augmented Lagrangian Methods (2014), chapters 4 and 12.
struct PenaltyRule {
  double mu = 0;
  double best = std::numeric_limits<double>::infinity();    ///< least violation so far
  double before = std::numeric_limits<double>::infinity();  ///< at the last look()
  int stalls = 0;                                           ///< looks in a row without progress

  /// The first μ, from the cost and the squared violation at the start.
  ///
  ///   asked         SolverOptions::initial_penalty; 0: chosen
  ///   inequalities  number of their rows that are penalised: where many bend, μ starts small, so
  ///                 that steps may pass bends, and multipliers find what is active
  void start(double asked, double cost, double squared_violation, std::size_t inequalities);
  /// Takes the violation after a minimisation: μ grows if it did not fall to a quarter. True if
  /// multipliers are to follow the violation.
  bool look(double violation, double tolerance);
  /// Penalties have grown in vain: the problem may be infeasible.
  bool in_vain() const;
};

}  // namespace topograd
