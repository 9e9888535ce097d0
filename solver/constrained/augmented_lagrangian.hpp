// The outer loop of constrained solves: multipliers and penalties around another method.
#pragma once

#include "../../frontend/inspect/penalties.hpp"
#include "../host/tangent_space.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../summary.hpp"

#include <limits>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// Minimisations on one engine, each from where the last one ended.
class InnerSolves {
 public:
  virtual ~InnerSolves() = default;
  /// An engine for this kind of evaluation at the best point, with the present numbers of the
  /// problem. Until the next call.
  virtual runtime::Engine& engine(runtime::Pass pass) = 0;
  virtual std::span<const double> point() const = 0;
  /// Minimises the cost until max |gradient| <= `bound`, or until another rule ends it; history,
  /// counts, termination and message go to the summary.
  ///
  ///   anew  starts with the trust region of the options, not with that of the last minimisation
  virtual void minimize(double bound, bool anew) = 0;
};

/// Options of the minimisations between updates: the method, and tolerances that leave the end to
/// the gradient. Throws Error{Unsupported} for checkpoints.
SolverOptions inner_options(SolverOptions options, const Problem& problem);

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
  /// All of these outlive it. The model has the constraints.
  AugmentedLagrangian(Problem& problem, const ProblemModel& model, const SolverOptions& options,
                      Summary& summary, InnerSolves& inner);

  /// Fills in costs, termination, message and Summary::constrained.
  void run();

 private:
  void list_rows();
  void start();
  bool refuse_fixed();
  void set(double weight, std::span<const double> shifts);
  void set_multipliers();
  void look();
  void update();
  bool converged();
  bool stopped() const;
  bool infeasible();
  double projected_max(std::vector<double>& gradient) const;
  void finish(Termination termination, std::string message);
  std::string name_of(std::size_t row) const;
  std::size_t worst_row() const;
  void report();

  Problem& problem_;
  const ProblemModel& model_;
  const SolverOptions& options_;
  Summary& summary_;
  InnerSolves& inner_;
  Penalties penalties_;
  TangentSpace space_;

  std::vector<bool> equality_;          // by row of the constraints
  std::vector<bool> fixed_;             // likewise: it reads only fixed unknowns
  std::vector<double> lambda_, shift_;  // likewise: as they are in the present penalties
  std::vector<double> next_lambda_;     // after the last minimisation
  std::vector<double> violation_;       // likewise: |c|, max(0, −c)
  double mu_ = 0;
  double objective_ = 0, first_objective_ = 0;
  double scale_ = 0;           // of gradients: SolverOptions::kkt_tolerance is a share of it
  double first_gradient_ = 0;  // max |∇f| at the start
  double bound_ = 0;           // of the next minimisation's gradient
  double first_violation_ = 0;
  double progress_ = 0;           // max |min(c, λ / μ)| after the last minimisation
  double best_ = 0, before_ = 0;  // least progress_, and that of the last update
  int stalls_ = 0;                // updates in a row without progress
  double violation_slope_ = 0;    // max |Jcᵀ violation| / ‖violation‖ at the start
  double least_gradient_ = std::numeric_limits<double>::infinity();  // of feasible points
  int idle_ = 0;                                                     // minimisations since it fell
  KktResiduals kkt_;
};

}  // namespace topograd
