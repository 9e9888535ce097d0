// When multipliers and penalties of an augmented Lagrangian change.
#pragma once

#include <cstddef>
#include <limits>

namespace topograd {

/// μ of an augmented Lagrangian, and how fast the violation falls.
///
/// μ grows only after minimisations that reached their tolerance: otherwise it is not μ that keeps
/// the violation. It stays below the value from which rounding of x alone makes gradients larger
/// than a small share of the objective's. A point without violation, as where an early
/// minimisation ends within inequalities, is no measure for later ones.
///
/// Source: Birgin & Martínez, Practical Augmented Lagrangian Methods (2014), chapters 4 and 12.
struct PenaltyRule {
  double mu = 0;
  double largest = 1e20;                                  ///< μ does not grow beyond
  double best = std::numeric_limits<double>::infinity();  ///< least violation so far that is not 0
  double before = std::numeric_limits<double>::infinity();  ///< at the last look()
  int stalls = 0;                                           ///< looks in a row without progress

  /// The first μ, from the cost and the squared violation at the start.
  ///
  ///   asked         SolverOptions::initial_penalty; 0: chosen
  ///   inequalities  number of their rows that are penalised: where many bend, μ starts small, so
  ///                 that steps may pass bends, and multipliers find what is active
  void start(double asked, double cost, double squared_violation, std::size_t inequalities);
  /// Takes the violation after a minimisation: μ grows if it did not fall to a quarter. True if
  /// multipliers are to follow the violation, which has fallen.
  ///
  ///   met     a violation that counts as none
  ///   solved  the minimisation reached its tolerance
  bool look(double violation, double met, bool solved);
  /// Penalties have grown in vain: the problem may be infeasible.
  bool in_vain() const;
};

}  // namespace topograd
