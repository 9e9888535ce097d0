// The outer loops of constrained solves share rows, units, penalties and inner solves.
#pragma once

#include "../../frontend/inspect/problem_use.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../host/tangent_space.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

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

/// The first μ depends on these.
struct PenaltyStart {
  double asked = 0;              ///< SolverOptions::initial_penalty; 0: chosen
  double cost = 0;               ///< of the objective
  double squared_violation = 0;  ///< Σ (d c)²
  std::size_t inequalities = 0;  ///< rows that are penalised: μ starts small for many of them, so
                                 ///< that steps may change which ones are active
  double curvature = 0;          ///< of the objective, along gradients of constraints; 0: unknown
};

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
  double largest = 1e20;  ///< μ does not grow beyond
  /// Least violation so far that is not 0, after minimisations that reached their tolerance.
  double best = std::numeric_limits<double>::infinity();
  double before = std::numeric_limits<double>::infinity();  ///< at the last look()
  int stalls = 0;                                           ///< looks in a row without progress

  /// The first μ.
  void start(const PenaltyStart& at);
  /// Takes the violation after a minimisation: μ grows if it did not fall to a quarter. True if
  /// multipliers are to follow the violation, which has fallen.
  ///
  ///   met     a violation that counts as none
  ///   solved  the minimisation reached its tolerance
  bool look(double violation, double met, bool solved);
  /// Violations so far say nothing about those to come: μ has fallen.
  void forget();
  /// Penalties have grown in vain: the problem may be infeasible.
  bool in_vain() const;
};

/// Minimisations on one engine, each from where the last one ended.
class InnerSolves {
 public:
  virtual ~InnerSolves() = default;
  /// An engine for this kind of evaluation at the best point, with the present numbers of the
  /// problem. Until the next call.
  virtual runtime::Engine& engine(runtime::Pass pass) = 0;
  virtual std::span<const double> point() const = 0;
  /// Makes x the point from which the next minimisation starts.
  virtual void move(std::span<const double> x) = 0;
  /// Minimises the cost until max |gradient| / unit <= `bound`, or until another rule ends it;
  /// history, counts, termination and message go to the summary.
  ///
  ///   units  of the gradient's entries, by scalar
  ///   anew   starts with the trust region of the options, not with that of the last minimisation
  virtual void minimize(double bound, std::span<const double> units, bool anew) = 0;
};

/// Judges gradients of the Lagrangian by the size of the objective's: tolerances are shares of it.
/// All are in the units of the unknowns (UnknownUnits).
class Stationarity {
 public:
  ///   gradient  max |∇f| at the start
  void start(double gradient) { first_ = gradient; }
  ///   gradient  max |∇f| at the present point
  void measure(double gradient) {
    scale_ = std::max(gradient, kShareOfStart * first_);
    if (!(scale_ > 0)) scale_ = 1;
  }

  /// The largest gradient that meets the tolerance.
  double bound(double tolerance) const { return tolerance * scale_; }
  /// The gradient of a feasible point, after a minimisation, meets the tolerance as well as
  /// rounding lets it.
  bool reached(double gradient, double tolerance) {
    idle_ = gradient < least_ / 2 ? 0 : idle_ + 1;
    least_ = std::min(least_, gradient);
    return gradient <= bound(tolerance) || (idle_ >= kMostIdle && nearly(gradient, tolerance));
  }
  /// Rounding may be the reason that it does not meet the tolerance.
  bool nearly(double gradient, double tolerance) const {
    return gradient <= kNearly * bound(tolerance);
  }
  /// Minimisations since the gradient of feasible points fell.
  int idle() const { return idle_; }

 private:
  /// The unit is at least this share of the objective's gradient at the start.
  static constexpr double kShareOfStart = 1e-2;
  /// Minimisations without a smaller gradient after which rounding is the reason, if the gradient
  /// is at most this many tolerances.
  static constexpr int kMostIdle = 4;
  static constexpr double kNearly = 30;

  double scale_ = 0, first_ = 0;
  double least_ = std::numeric_limits<double>::infinity();  // of feasible points
  int idle_ = 0;
};

/// max |number|; NaN if one is.
double largest(std::span<const double> numbers);
/// "0.00123", for messages.
std::string short_text(double number);

/// A constrained solve in progress. Vectors of rows are in the order of adding.
struct ConstrainedRun {
  /// All of these outlive it. The model has terms for the constraints.
  ConstrainedRun(Problem& problem, const ProblemModel& model, const SolverOptions& options,
                 Summary& summary, InnerSolves& inner);

  Problem& problem;
  const ProblemModel& model;
  const SolverOptions& options;
  Summary& summary;
  InnerSolves& inner;
  Penalties penalties;
  TangentSpace space;

  std::vector<bool> equality;       ///< by row of the constraints
  std::vector<bool> fixed;          ///< likewise: it reads only fixed unknowns
  std::vector<double> multipliers;  ///< likewise: λ after the last minimisation
  std::vector<double> violation;    ///< likewise: |c|, max(0, −c)
  std::vector<bool> outside;        ///< likewise: it is not above 0 at the start of a barrier
  std::vector<double> scale;  ///< likewise: d of Penalties, 1 / the largest ‖∇c‖ so far, in
                              ///< units of the unknowns at the start
  std::vector<double> rounding;  ///< likewise: change of c by the rounding of x
  double gradient_rounding = 0;  ///< of ½ ‖d c‖²
  UnknownUnits units;
  KktResiduals kkt;
  double stationarity = 0;  ///< that of `kkt`, in the units of the unknowns
  double objective = 0, first_objective = 0;
  double first_distance = 0;   ///< largest_distance() at the start
  double curvature = 0;        ///< of the objective at the start: the unit of μ; 0: unknown
  double violation_slope = 0;  ///< max |∇ ½ ‖d violation‖²| / ‖d violation‖ at the start
  Stationarity gradients;      ///< by the objective's gradient

  std::size_t rows() const { return equality.size(); }
  double gradient_bound() const { return gradients.bound(options.kkt_tolerance); }
  /// The largest μ that keeps the rounding of penalties' gradients a small share of the
  /// objective's.
  double largest_penalty() const;

  /// The whole cost and its gradient, with the present weights and shifts.
  double cost();
  std::vector<double> gradient();
  /// The gradient of the objective alone; `objective` is its value. Weights become 0.
  std::vector<double> objective_gradient();
  /// max |g| / unit over what is free and within the bounds.
  double projected_max(std::vector<double> gradient) const;
  /// g / unit over what is free and within the bounds, by coordinate.
  std::vector<double> in_units(std::vector<double> gradient) const;
  /// Sets `stationarity` and that of `kkt`.
  void measure_stationarity(const std::vector<double>& gradient);

  /// max d violation.
  double largest_distance() const;
  /// How far a row with this value violates its constraint.
  double violation_by(std::size_t row, double c) const {
    return equality[row] ? std::abs(c) : c >= 0 ? 0.0 : -c;
  }
  /// ‖d violation‖, and the square of that norm for other numbers by row.
  double scaled_violation() const;
  double scaled_square(std::span<const double> of_rows) const;
  /// Updates scales and rounding, given the present point. Returns true if scales have changed.
  /// Cost: a pass over the constraints' Jacobian.
  bool measure_rows();
  /// |c| up to which a row counts as met: the option, or what rounding leaves.
  double tolerance(std::size_t row) const;
  /// The least of them, times d.
  double least_tolerance() const;
  /// Updates the units of unknowns. Weights are 0.
  ///
  ///   gradient  of the objective, at the present point
  void measure_units(std::span<const double> gradient);
  /// Records what later looks are compared with, at the start. Weights become 0.
  ///
  ///   gradient   of the objective
  ///   penalised  of objective and ½ c² of the violated rows
  void start(std::span<const double> gradient, std::vector<double> penalised);
  /// Updates units and the summary's cost, given the objective's present gradient. Weights are 0.
  void measure(std::span<const double> gradient);

  /// The end of the solve if a constraint that reads only fixed unknowns does not hold.
  bool refuse_fixed();
  /// The gradient and multipliers' conditions are met as well as rounding lets them be.
  bool stationary() { return gradients.reached(stationarity, options.kkt_tolerance); }
  /// The larger of the objective here and at the start, at most 1; if both are 0, how far its first
  /// gradient would lower it on the way to the farthest constraint.
  double cost_unit() const;
  /// λ c are small enough: at most 10 kkt_tolerance in the units of the objective.
  double complementarity_bound() const;
  /// The caller or a limit has ended the solve in a minimisation.
  bool stopped() const;
  /// What violation there is comes from tolerances and rounding.
  bool nearly_feasible() const;
  /// Keeps the present point if it meets every constraint: then the problem is not infeasible.
  void keep_if_met();
  /// The last point that met every constraint; empty: there was none.
  std::span<const double> met() const { return met_; }
  /// The violation is at a minimum of its own: its gradient alone vanishes.
  ///
  ///   weight, inequalities  weights of equalities and inequalities
  ///   shifts                of Penalties: without multipliers
  bool violation_is_least(double weight, double inequalities, std::span<const double> shifts);
  /// The gradient of the violation vanishes at its maximum, too, and at saddles: then it is smaller
  /// with one unknown changed, by its own size or by 1 times powers of 2. For up to 64 unknowns
  /// without manifolds.
  bool violation_falls_beside();

  /// Ends the solve if the caller or a limit has ended a minimisation, if a method finds that it
  /// has converged or that a constraint cannot be met, or after the last outer iteration.
  bool ended(const std::function<bool()>& converged, const std::function<bool()>& infeasible);
  void finish(Termination termination, std::string message);
  void finish_converged();
  /// INFEASIBLE, or NO_CONVERGENCE if a point has met every constraint.
  void finish_infeasible();
  void finish_unconverged();
  std::string name_of(std::size_t row) const;
  std::size_t worst_row() const;
  /// Fills in Summary::constrained.
  void report();

 private:
  void list_rows();
  void fill_units();
  std::vector<double> by_coordinate(std::span<const double> gradient) const;
  /// g / unit of what is free.
  std::vector<double> free_in_units(std::span<const double> gradient) const;
  std::vector<double> across_constraints();
  /// Sets `curvature`: ‖J v‖² / ‖v‖² of sums of squares, v being a sum of the rows d ∇c, in the
  /// units of the unknowns. Of other costs 100 times ‖∇²f v‖ / ‖v‖, or ‖∇f‖ per ‖d violation‖ if
  /// that is larger.
  ///
  ///   farthest  max d |c|, which serves where nothing is violated and ∇²f v is 0
  void measure_curvature(std::span<const double> gradient, double farthest);

  std::vector<double> met_;
  double first_promise_ = 0;   // largest |∇f_i| times the largest d |c|, at the start
  std::vector<double> norms_;  // by row: the largest ‖∇c‖ so far
};

}  // namespace topograd
