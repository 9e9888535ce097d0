// What a step leads to: acceptance, the next damping and tolerance of its linear system, the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "../../runtime/engine/damped_steps.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "convergence.hpp"
#include "trust_region.hpp"

namespace topograd::ir {
class StateRecord;
}

namespace topograd {

/// The tolerance of the linear solver, from the rate at which the gradient falls: far from the
/// minimum an exact step is wasted.
///
/// The first system is solved exactly. Starts are often smooth (a mesh at rest), and one exact step
/// keeps them so; a loose one leaves neighbours that contradict each other, from which many more
/// steps are taken or rejected. A deformation of the Utah teapot took 144 steps from a tolerance of
/// 0.1 and 13 from 1e-5, where exact steps take 6.
///
/// Source: Eisenstat, Walker, Choosing the forcing terms in an inexact Newton method, SIAM J. Sci.
/// Comput. 17 (1996), choice 2 with α = 2, γ of the row of solver/option_values.def, and its
/// safeguard.
class Forcing {
 public:
  ///   sequence  not automatic
  ///   tightest  lower bound of the tolerance, in (0, 1); always used with `constant`
  Forcing(ForcingSequence sequence, double tightest);

  /// Call at a new point.
  ///
  ///   gradient_norm  ‖Jᵀr‖ there
  void moved(double gradient_norm);
  /// Call after a rejected step: the next one is solved more exactly.
  void refused();
  /// Call if the last step gained so little that the solve could end. Returns true if it was solved
  /// exactly enough for this conclusion; if not, later steps are solved ten times more exactly than
  /// it.
  bool trusts_last();
  void transfer(ir::StateRecord& record);
  /// ‖residual of the normal equations‖ / ‖gradient‖ at which to stop.
  double tolerance() const { return tolerance_; }
  /// True if the tolerance follows the gradient.
  bool is_loose() const { return gamma_ > 0; }

 private:
  double gamma_;
  double tightest_;
  double tolerance_;
  double loosest_;
  double last_norm_ = 0;
};

/// Reasons for the end of a minimisation of least squares.
enum class End : std::uint8_t {
  none,
  gradient,           ///< SolverOptions::gradient_tolerance
  absolute_gradient,  ///< SolverOptions::absolute_gradient_tolerance
  cost_change,        ///< function_tolerance, by the change of the cost
  predicted_change,   ///< function_tolerance, by the change that the model predicts
  step,               ///< parameter_tolerance
  least_radius,       ///< min_trust_region_radius
  rounding_of_cost,   ///< the same, where rounding hides what is left to gain
  rounding,           ///< neither cost nor gradient fall any more
  kink,               ///< min_trust_region_radius at a point whose gradient is not zero
  lost_columns,       ///< unknowns no longer change the residuals (lost_columns.hpp)
  curved_valley,      ///< the linear model promises more than steps bring: Undamped::unsettled
  time,               ///< time_limit_seconds
  iterations,         ///< max_iterations
  no_usable_step,     ///< max_consecutive_invalid_steps
  out_of_range,       ///< squares underflow or overflow
  nonfinite,          ///< numbers at the start, or derivatives at an accepted point
  interrupted,        ///< a signal
};

/// The end of a minimisation, with the numbers of its message.
struct Verdict {
  End end = End::none;
  double value = 0, bound = 0;

  explicit operator bool() const { return end != End::none; }
};
Termination termination(End end);
/// The message: "gradient tolerance reached: ...".
std::string text(const Verdict& verdict, const SolverOptions& options);

/// The end by the gradient, the time limit or the number of iterations, in this order.
///
///   gradient      its size, compared with `unit` times SolverOptions::gradient_tolerance
///   gradient_max  max |g_i|, compared with SolverOptions::absolute_gradient_tolerance
Verdict limit_reached(const SolverOptions& options, double gradient, double unit,
                      double gradient_max, double seconds, int iterations);

/// Message of End::out_of_range.
inline constexpr const char* kOutOfRange =
    "squares of residuals or derivatives underflow or overflow: scale the residuals or the "
    "unknowns";

/// A trial step, judged by its report.
struct StepFacts {
  bool valid = false;      ///< the model expects a decrease
  bool nonfinite = false;  ///< valid, and the cost of the trial is NaN or infinite
  double change = 0;       ///< decrease of the cost; 0 if there was no trial
  double gain = 0;         ///< change over the model's decrease; 0 unless valid and finite
};

/// The rules of a minimisation: plain numbers in, decisions out. One object for each minimisation,
/// whatever evaluates its points and solves for its steps.
///
/// Source: Ceres Solver's TrustRegionMinimizer for tolerances, radius and their order.
class StepRules {
 public:
  struct Terms {
    bool penalties = false;        ///< some residuals penalise constraints
    bool curvature_jumps = false;  ///< the cost has second derivatives that jump
    bool few = false;              ///< so few unknowns that a step without damping costs little
  };
  /// `options` are resolved and outlive the rules.
  StepRules(const SolverOptions& options, Terms terms);

  /// Steps without damping are not so cheap after all, unless `few`.
  void limit_few(bool few) { terms_.few &= few; }

  // The point.

  /// The first point has this cost: sets the unit of the trust region's radius.
  void start(double cost);
  /// Before start(): goes on from where other rules began.
  void follow_start(const StepRules& other) { start_noise_ = other.start_noise_; }
  /// Begins with short steps, after start(): long ones led from the same point to where columns
  /// have vanished.
  ///
  ///   times  > 0: each makes them 10⁶ times shorter
  void begin_short(int times);
  /// The minimisation is at this point.
  ///
  ///   initial_cost  at the start
  ///   judged        what absolute_gradient_tolerance is compared with
  void set_point(const runtime::PointReport& point, double initial_cost, double judged);
  void set_point(const runtime::PointReport& point, double initial_cost) {
    set_point(point, initial_cost, point.gradient_max_norm);
  }
  /// Steps are tried from the point.
  void open_point();
  const runtime::PointReport& point() const { return point_; }
  void set_cost(double cost);
  double optimality() const { return optimality_; }
  /// The gradient at the point does not contradict the tolerances.
  bool tolerances_hold() const {
    return may_claim(std::max(options_->function_tolerance, options_->parameter_tolerance));
  }
  bool finite() const;
  /// Rounding may hide more than the tolerance at the point, by a bound that mixes all rows: the
  /// one by rows, which costs a Jacobian, is asked for before a verdict.
  bool needs_row_noise() const;
  ///   noise  row_noise() at the point
  void set_row_noise(double noise);
  /// A column that nearly vanishes contradicts the verdict that a change of the cost by this much
  /// leads to: where residuals have a least value that is not 0, the linear model promises what it
  /// cannot hold. Second derivatives decide, of few unknowns; the more often they were asked in
  /// vain, the longer they are not asked again.
  bool needs_exact_gain(double change);
  ///   gain  exact_gain() at the point
  void set_exact_gain(double gain);
  /// The end at a point where second derivatives leave no more to gain than the tolerance; none
  /// where they do, or where they were not asked.
  Verdict check_exact_gain() const;
  /// True if second derivatives may be asked at all.
  bool may_ask_exactly() const;
  /// The cost beside the point may contradict a verdict.
  bool may_leave_saddle() const;
  /// So many steps in turn were refused or short by damping that the linear model is no good, or
  /// only it contradicts a verdict: the next step is of the exact model, of few unknowns.
  bool wants_exact_step() const;
  /// True if such a step is taken: it brings much more than the last one.
  ///
  ///   change  of the cost; 0 if none was found
  bool accepts_exact(double change);
  /// Most dampings of such a step that are tried.
  int exact_tries() const;
  /// The end where a verdict was unsettled and second derivatives, too, know no step.
  Verdict check_settled() const;
  /// The end at the point: limits, then the radius.
  Verdict check_limits(double seconds, int iterations) const;
  Verdict check_radius() const;
  /// The verdict, or that rounding of the cost hides what the first step at the point promised.
  ///
  ///   noise  of the cost, from the residuals themselves; 0: it was not measured
  Verdict check_promise(const Verdict& verdict, double noise) const;

  // A trial.

  /// Damping of the next step, StepRequest::lambda.
  double lambda() const;
  /// Without a rule.
  runtime::StepRequest request() const;
  double least_gain() const;
  /// Length at which a trial is tried once more, if steps may have other lengths.
  std::optional<double> other_length(const runtime::StepReport& report) const;
  /// Takes the trial of another length; false if it is no better.
  static bool take_length(runtime::StepReport& report, double length,
                          const runtime::StepReport& other);
  StepFacts judge(const runtime::StepReport& report) const;
  /// True if the step is taken.
  bool accepts(const StepFacts& facts, const runtime::StepReport& report);
  /// A trial whose gain the cost cannot show went before.
  bool last_was_hidden() const { return hidden_.last(); }

  /// The step is taken; set_point() follows.
  ///
  ///   shortened  by cuts
  void take(const StepFacts& facts, const runtime::StepReport& report, bool shortened);
  /// The step has led to the point.
  ///
  ///   before  the point that it led from
  ///   share   damped_share() of the full step
  Verdict after_take(const StepFacts& facts, const runtime::StepReport& report,
                     const runtime::PointReport& before, double share);
  Verdict refuse(const StepFacts& facts, const runtime::StepReport& report, double share);

  /// A step without damping may contradict the verdict: that a step was small, which damping may
  /// have made it, or that the gradient is, which it is far from the minimum, too, where columns
  /// depend on each other nearly.
  bool may_be_contradicted(const Verdict& verdict) const;
  /// Of a step without damping.
  runtime::StepRequest undamped_request() const;
  /// What such a step must take from the cost to contradict a verdict.
  double least_contradiction() const;
  /// What the trial of such a step says about a verdict.
  enum class Undamped : std::uint8_t {
    agrees,     ///< it promises no more than the tolerance, or little more and in vain
    is_taken,   ///< it takes more from the cost than the tolerance: request() asks for it next
    is_long,    ///< it promises more, but the cost does not follow: damping grows from next to none
    unsettled,  ///< the same again, and nothing was gained meanwhile
  };
  /// Unless the trial agrees, the minimisation goes on, or second derivatives decide.
  Undamped judge_undamped(const runtime::StepReport& undamped);
  /// Second derivatives do not confirm an unsettled verdict: a step of the exact model is next.
  ///
  ///   promise  of the step without damping
  void doubt(double promise) { unsettled_ = promise; }

  bool undamped() const { return undamped_; }
  bool no_step_refused() const { return first_trial_.open; }
  bool no_invalid_step() const { return invalid_in_a_row_ == 0; }
  /// So many steps in turn were refused, or gained no more than rounding, that something other than
  /// their length may be wrong. True after the last of them alone.
  bool is_stuck() const { return idle_in_a_row_ == kStuck; }
  double radius() const { return region_.radius(); }
  Forcing& forcing() { return forcing_; }
  const Forcing& forcing() const { return forcing_; }
  void transfer_sizes(ir::StateRecord& record);  ///< radius and tolerance
  void transfer(ir::StateRecord& record);        ///< the rest

 private:
  static constexpr int kStuck = 3;
  static constexpr int kDampedSteps = 8;

  bool still_falls() const;
  bool hides(const runtime::StepReport& report, double bound) const;
  double rounding_noise() const;
  double hiding_noise() const;
  bool is_drowned(double noise) const;
  bool widen(const LastStep& step);
  void note_promise(double decrease, double resolution);
  bool waits_for_more(double noise);
  bool moves_nothing(const StepFacts& facts, const runtime::StepReport& report,
                     double resolution) const;
  Verdict end_of_retries(const StepFacts& facts, const LastStep& last, double resolution);
  bool may_leave_out_damping(const LastStep& last);
  bool may_claim(double share) const;
  bool is_exact_minimum(double resolution) const { return exact_gain_ <= resolution; }
  Verdict end_of_exact(double bound) const;
  Verdict check_taken(const StepFacts& facts, const runtime::StepReport& report,
                      const runtime::PointReport& before, const LastStep& last);

  const SolverOptions* options_;
  Terms terms_;
  TrustRegion region_;
  double radius_unit_ = 1;  // of the radii in the options
  Forcing forcing_;
  HiddenSteps hidden_;
  runtime::PointReport point_;
  double judged_gradient_ = 0;
  double optimality_ = std::numeric_limits<double>::quiet_NaN();
  bool undamped_ = false;  // the next trial is a pure Gauss–Newton step
  bool exact_ = false;     // the next trial has no damping at all
  bool retries_ = false;   // the damping grows from next to none, until a step is taken
  /// The cost where it last began to.
  double retried_ = std::numeric_limits<double>::infinity();
  double unsettled_ = 0;  // what a step without damping promised in vain; 0: no verdict waits
  int waits_ = 0, most_waits_ = 0;  // steps at the largest radius before the next such trial
  struct FirstTrial {
    bool open = true;              // no step was refused at this point yet
    double expected = 0;           // decrease, by the first step that was refused at this point
    bool nothing_to_gain = false;  // it promised less than the function tolerance
    int hidden = 0;                // refused steps at this point of which only rounding is seen
  };
  FirstTrial first_trial_;
  /// Smallest radius of a refused step since a step lowered the cost by more than the tolerance.
  double refused_radius_ = std::numeric_limits<double>::infinity();
  int invalid_in_a_row_ = 0, idle_in_a_row_ = 0;
  double initial_cost_ = 0;
  double start_noise_ = -1;  // negative: not known yet
  ResidualNorms norms_;
  /// Bound by rows at the point; infinite until it is known.
  double row_noise_ = std::numeric_limits<double>::infinity();
  /// By second derivatives at the point; infinite until it is known.
  double exact_gain_ = std::numeric_limits<double>::infinity();
  int exact_waits_ = 0, most_exact_waits_ = 0;  // points until it is asked for again
  // Steps in turn that damping shortens, and as many before an exact one.
  int damped_steps_ = 0, most_damped_steps_ = kDampedSteps;
  double least_cost_ = 0;   // the cost at the point, or what counts as zero in its place
  double last_change_ = 0;  // of the cost, by the last accepted step
  double way_ = 0;          // sum of the accepted steps, each by the change of the residuals
};

}  // namespace topograd
