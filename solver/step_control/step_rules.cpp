// The rules of steps of least squares, and the tolerance of the linear system of each step.
#include "step_rules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../ir/machine/formatted.hpp"
#include "../../ir/machine/state_record.hpp"
#include "line_search.hpp"
#include "newton_decrement.hpp"
#include "solve_control.hpp"

namespace topograd {
namespace {

constexpr double kLoosest = 0.5;
constexpr double kSafeguard = 0.1;  ///< above it the tolerance falls no faster than quadratically
constexpr double kRefused = 0.1;
constexpr double kTrusted = 1e-2;  ///< a step that is solved so exactly may be the last

using runtime::StepReport;

// Damping at the level of rounding: a Gauss–Newton step that a singular block cannot break.
double undamped_lambda(Precision precision) { return precision == Precision::f32 ? 1e-7 : 1e-15; }

// Growth of the radius where damping hides what is left to gain.
constexpr double kWidening = 100;

// Radius, as a share of one at which pivots vanished that may hide more than a step gained.
constexpr double kLimit = 0.25;

// Gain below which a step that promised more than the tolerance does not end a solve.
constexpr double kTooLong = 0.05;

// Rounding of less than this share of the cost ends a solve after so many steps from a point that
// it hides, not after the first one.
constexpr double kLargeNoise = 1e-3;
constexpr int kMostHidden = 4;

// Share of a step that the damping keeps back, from which the step counts as damped.
constexpr double kMostlyDamped = 0.5;

// A step of the exact model is taken if it brings so many times what the last step brought. Where
// residuals can vanish, the linear model leads to better minima, if slowly.
constexpr double kMuchMore = 10;

// Share of the decrease before from which on steps are slow.
constexpr double kSlow = 0.5;

// Most steps between two without damping at the largest radius, and how far that grows meanwhile.
constexpr int kMostWaits = 1 << 10;
constexpr double kMostRadius = 1e36;
// A cost that is this share of the one at the start is zero: steps towards a singular minimum of
// cost 0 gain a part of what is left without an end.
constexpr double kZero = 1e-42;

std::string reached(const char* what, const Verdict& verdict) {
  return platform::formatted("%s: %.6e <= %.6e", what, verdict.value, verdict.bound);
}

}  // namespace

Forcing::Forcing(ForcingSequence sequence, double tightest)
    : gamma_(forcing_gamma(sequence)),
      tightest_(tightest),
      tolerance_(tightest),
      loosest_(std::max(tightest, kLoosest)) {}

void Forcing::moved(double gradient_norm) {
  const double last = std::exchange(last_norm_, gradient_norm);
  if (!is_loose() || !(last > 0) || !std::isfinite(gradient_norm)) return;
  const double ratio = gradient_norm / last;
  double next = gamma_ * ratio * ratio;
  const double bound = gamma_ * tolerance_ * tolerance_;
  if (bound > kSafeguard) next = std::max(next, bound);
  tolerance_ = std::clamp(next, tightest_, loosest_);
}

bool Forcing::trusts_last() {
  if (!is_loose() || tolerance_ <= std::max(tightest_, kTrusted)) return true;
  loosest_ = std::max(tightest_, kRefused * tolerance_);
  return false;
}

void Forcing::transfer(ir::StateRecord& record) {
  record.value("linear tolerance", tolerance_);
  record.value("loosest linear tolerance", loosest_);
  record.value("gradient norm before", last_norm_);
}

void Forcing::refused() {
  if (is_loose()) tolerance_ = std::max(tightest_, kRefused * tolerance_);
}

Termination termination(End end) {
  switch (end) {
    case End::none:
    case End::no_usable_step:
    case End::out_of_range:
    case End::nonfinite: return Termination::FAILURE;
    case End::kink:
    case End::lost_columns:
    case End::curved_valley:
    case End::time:
    case End::iterations: return Termination::NO_CONVERGENCE;
    case End::interrupted: return Termination::USER_SUCCESS;
    case End::gradient:
    case End::absolute_gradient:
    case End::cost_change:
    case End::predicted_change:
    case End::step:
    case End::least_radius:
    case End::rounding_of_cost:
    case End::rounding: break;
  }
  return Termination::CONVERGENCE;
}

std::string text(const Verdict& verdict, const SolverOptions& options) {
  switch (verdict.end) {
    case End::none: return {};
    case End::gradient:
      return reached(options.scale_free ? "gradient tolerance reached: max |gradient| / (‖column‖ "
                                          "‖residuals‖)"
                                        : "gradient tolerance reached: max |gradient|",
                     verdict);
    case End::absolute_gradient:
      return reached("absolute gradient tolerance reached: max |gradient|", verdict);
    case End::cost_change: return reached("function tolerance reached: cost change", verdict);
    case End::predicted_change:
      return reached("function tolerance reached: |predicted cost change|", verdict);
    case End::step: return reached("parameter tolerance reached: step norm", verdict);
    case End::least_radius: return reached("minimum trust region radius reached: radius", verdict);
    case End::rounding_of_cost:
      return reached("rounding of the cost reached: predicted cost change", verdict);
    case End::rounding: return "neither the cost nor the gradient falls any more: rounding";
    case End::kink:
      return "minimum trust region radius reached: no step lowers the cost, but the gradient is "
             "not zero (a kink, or derivatives that do not match the residuals)";
    case End::lost_columns:
      return "unknowns have moved to where they do not change the residuals, and the solve found "
             "no better point from where they did: begin elsewhere, or set bounds";
    case End::curved_valley:
      return reached(
          "steps bring no more, but one without damping promises what the cost does not "
          "follow, and second derivatives know no minimum here (a curved valley): "
          "predicted cost change",
          verdict);
    case End::time:
      return "time limit reached: " + std::to_string(options.time_limit_seconds) + " s";
    case End::iterations:
      return "maximum number of iterations reached: " + std::to_string(options.max_iterations);
    case End::no_usable_step:
      return "no usable step: the linear model expected no decrease " +
             std::to_string(static_cast<int>(verdict.value)) + " times in a row";
    case End::out_of_range: return kOutOfRange;
    case End::nonfinite: return "residuals or derivatives are not finite";
    case End::interrupted: return "interrupted";
  }
  return {};
}

Verdict limit_reached(const SolverOptions& options, double gradient, double unit,
                      double gradient_max, double seconds, int iterations) {
  const double bound = options.gradient_tolerance * unit;
  if (gradient <= bound) return {End::gradient, gradient, bound};
  const double absolute = options.absolute_gradient_tolerance;
  if (absolute > 0 && gradient_max <= absolute)
    return {End::absolute_gradient, gradient_max, absolute};
  if (seconds >= options.time_limit_seconds) return {End::time};
  if (iterations >= options.max_iterations) return {End::iterations};
  return {};
}

StepRules::StepRules(const SolverOptions& options, Terms terms)
    : options_(&options),
      terms_(terms),
      region_(options.initial_trust_region_radius, options.max_trust_region_radius,
              options.method == Method::dogleg),
      forcing_(ForcingSequence::constant, options.linear_tolerance),
      hidden_(options),
      undamped_(options.method == Method::gauss_newton) {
  // Steps without damping are tried beside others where tolerances follow units.
  if (!options.scale_free) terms_.few = false;
}

/// Claims are compared with it. Where a large bound only lets a solve go on, cost_noise() serves.
double StepRules::rounding_noise() const {
  return std::min(cost_noise(point_, norms_.here, options_->precision), row_noise_);
}

/// Unknowns have become so large that their rounding changes the cost by a part of what it was: it
/// says nothing about them any more.
bool StepRules::is_drowned(double noise) const {
  constexpr double kShareOfStart = 1e-2, kMuchMoreNoise = 1e6;
  return noise > kShareOfStart * initial_cost_ && noise > kMuchMoreNoise * start_noise_;
}

bool StepRules::needs_row_noise() const {
  return options_->scale_free && std::isinf(row_noise_) &&
         rounding_noise() > options_->function_tolerance * point_.cost;
}

void StepRules::set_row_noise(double noise) {
  row_noise_ = sum_noise(point_.cost, options_->precision) + noise;
}

bool StepRules::may_ask_exactly() const { return terms_.few && may_leave_saddle(); }

bool StepRules::may_leave_saddle() const {
  return !terms_.penalties && !ends_by_gradient(*options_);
}

bool StepRules::needs_exact_gain(double change) {
  const double share = options_->function_tolerance;
  if (!may_ask_exactly() || !std::isinf(exact_gain_) || std::abs(change) > share * point_.cost ||
      may_claim(share))
    return false;
  return exact_waits_ == 0 || --exact_waits_ < 0;
}

void StepRules::set_exact_gain(double gain) {
  exact_gain_ = gain;
  most_exact_waits_ = check_exact_gain() ? 0 : std::min(2 * most_exact_waits_ + 1, kMostWaits);
  exact_waits_ = most_exact_waits_;
}

Verdict StepRules::check_exact_gain() const {
  return end_of_exact(options_->function_tolerance * point_.cost);
}

bool StepRules::wants_exact_step() const {
  if (unsettled_ > 0) return true;
  return may_ask_exactly() && !terms_.curvature_jumps && !options_->use_nonmonotonic_steps &&
         options_->method == Method::levenberg_marquardt && damped_steps_ >= most_damped_steps_;
}

bool StepRules::accepts_exact(double change) {
  const bool accepted =
      change > std::max(options_->function_tolerance * point_.cost, kMuchMore * last_change_);
  if (accepted) {
    last_change_ = unsettled_ = 0;
  } else {
    damped_steps_ = 0;
    most_damped_steps_ = std::min(2 * most_damped_steps_, kMostWaits);
  }
  return accepted;
}

int StepRules::exact_tries() const { return unsettled_ > 0 ? kMostExactTries : 1; }

Verdict StepRules::check_settled() const {
  if (unsettled_ == 0) return {};
  return {End::curved_valley, unsettled_, least_contradiction()};
}

void StepRules::start(double cost) {
  const SolverOptions& o = *options_;
  if (start_noise_ < 0) start_noise_ = cost_noise(point_, norms_.here, o.precision);
  const bool dogleg = o.method == Method::dogleg;
  const double unit = dogleg && o.scale_free ? residual_norm(cost) : 1;
  if (!(unit > 0)) return;  // nothing to do
  radius_unit_ = unit;
  region_ =
      TrustRegion(o.initial_trust_region_radius * unit, o.max_trust_region_radius * unit, dogleg);
}

void StepRules::begin_short(int times) {
  constexpr double kShort = 1e-6;
  region_.restart(std::pow(kShort, times) * region_.radius());
  undamped_ = false;
}

void StepRules::set_point(const runtime::PointReport& point, double initial_cost, double judged) {
  point_ = point;
  judged_gradient_ = judged;
  row_noise_ = exact_gain_ = std::numeric_limits<double>::infinity();
  norms_.here = residual_norm(point.cost);
  if (initial_cost != initial_cost_) norms_.start = residual_norm(initial_cost);
  initial_cost_ = initial_cost;
  const double unit = residual_unit(point_, norms_);
  optimality_ = topograd::optimality(point_, norms_, unit);
  least_cost_ = unit * unit / 2;
}

void StepRules::open_point() {
  forcing_.moved(point_.gradient_norm);
  first_trial_.open = true;
  first_trial_.hidden = 0;
}

void StepRules::set_cost(double cost) {
  point_.cost = cost;
  norms_.here = residual_norm(cost);
}

bool StepRules::finite() const {
  return std::isfinite(point_.cost) && std::isfinite(point_.gradient_max_norm);
}

Verdict StepRules::check_limits(double seconds, int iterations) const {
  const bool scaled = options_->scale_free;
  const double size = scaled ? optimality_ : point_.gradient_max_norm;
  const Verdict verdict = limit_reached(*options_, size, 1, judged_gradient_, seconds, iterations);
  if (verdict.end != End::gradient || !(retries_ || still_falls())) return verdict;
  return limit_reached(*options_, std::numeric_limits<double>::infinity(), 1, judged_gradient_,
                       seconds, iterations);
}

/// The last step changed the cost by much, and the cost is not small beside that change: the
/// gradient of columns that are nearly dependent is small far from the minimum, too.
bool StepRules::still_falls() const {
  const SolverOptions& o = *options_;
  if (!o.scale_free || terms_.penalties || ends_by_gradient(o)) return false;
  const double share = std::max(o.function_tolerance, o.gradient_tolerance);
  return last_change_ > share * least_cost_ && point_.cost > share * last_change_;
}

Verdict StepRules::check_radius() const {
  const double least = options_->min_trust_region_radius * radius_unit_;
  if (!(region_.radius() <= least)) return {};
  // What ends a minimisation within augmented_lagrangian is judged there.
  if (!options_->scale_free || terms_.penalties)
    return {End::least_radius, region_.radius(), least};
  return check_promise({End::kink}, 0);
}

Verdict StepRules::check_promise(const Verdict& verdict, double noise) const {
  const double most = std::max(rounding_noise(), noise);
  const double promised = std::fmin(first_trial_.expected, point_.cost);  // no step gains more
  if (!(promised <= most) || is_drowned(most)) return verdict;
  return {End::rounding_of_cost, promised, most};
}

double StepRules::lambda() const {
  if (exact_) return 0;
  return undamped_ ? undamped_lambda(options_->precision) : 1 / region_.radius();
}

runtime::StepRequest StepRules::request() const {
  const SolverOptions& o = *options_;
  return {.lambda = lambda(),
          .min_diagonal = o.min_lm_diagonal,
          .max_diagonal = o.max_lm_diagonal,
          .jacobi_scaling = o.jacobi_scaling,
          .scale_free = o.scale_free,
          // Penalties make valleys, in which more damping makes steps short.
          .keeps_damping = o.scale_free && o.jacobi_scaling && !terms_.penalties,
          .energy_norm = o.scale_free && !forcing_.is_loose(),
          .linear_tolerance = forcing_.tolerance(),
          .max_linear_iterations = o.max_linear_iterations,
          .eta = o.eta};
}

runtime::StepRequest StepRules::undamped_request() const {
  runtime::StepRequest request = this->request();
  request.lambda = 0;
  return request;
}

bool StepRules::may_be_contradicted(const Verdict& verdict) const {
  if (!terms_.few) return false;
  if (verdict.end == End::gradient) return !ends_by_gradient(*options_);
  return verdict.end == End::cost_change || verdict.end == End::predicted_change ||
         verdict.end == End::step;
}

double StepRules::least_contradiction() const {
  return std::max(
      {options_->function_tolerance * point_.cost, rounding_noise(), kZero * initial_cost_});
}

StepRules::Undamped StepRules::judge_undamped(const StepReport& undamped) {
  const StepFacts facts = judge(undamped);
  const double least = least_contradiction();
  if (!facts.valid || !(undamped.model_decrease > least)) return Undamped::agrees;
  exact_ = !facts.nonfinite && facts.change > least && facts.gain > options_->min_relative_decrease;
  if (!exact_ && !(retried_ - point_.cost > least)) {
    const double most = most_optimality(options_->function_tolerance);
    return undamped.model_decrease > most * most * point_.cost ? Undamped::unsettled
                                                               : Undamped::agrees;
  }
  const bool dogleg = options_->method == Method::dogleg;
  const double most = 0.5 / undamped_lambda(options_->precision);
  if (exact_) {
    if (!dogleg && region_.radius() < most) region_.widen(most / region_.radius(), 2 * most);
    return Undamped::is_taken;
  }
  if (dogleg) {
    region_.restart(std::max(region_.radius(), undamped.scaled_step_norm));
  } else if (options_->max_trust_region_radius >= SolverOptions{}.max_trust_region_radius) {
    region_.restart(kMostRadius);
  }
  retries_ = true;
  retried_ = point_.cost;
  first_trial_ = {};
  refused_radius_ = std::numeric_limits<double>::infinity();
  undamped_ = false;
  return Undamped::is_long;
}

/// Steps at the largest radius that gain what they promise are short by that radius alone, if the
/// damping still shortens them: derivatives have become small beside those of the first point, or
/// columns depend on each other nearly. Then a step without damping is tried. If it is refused, the
/// next ones wait for twice as many steps, and the radius grows on.
bool StepRules::may_leave_out_damping(const LastStep& last) {
  if (!terms_.few || ends_by_gradient(*options_) || !region_.is_largest() ||
      !damping_hides_more(last))
    return false;
  if (waits_ == 0) return true;
  --waits_;
  if (options_->max_trust_region_radius >= SolverOptions{}.max_trust_region_radius)
    region_.extend(kMostRadius);
  return false;
}

/// Gains above which another length is tried. Steps of loosely solved systems are shortened, too,
/// as inexact Newton methods do. Longer exact steps of poor gain would zigzag along a valley
/// into which more damping turns them: springs that fold, and the sets of NIST, then take half as
/// many steps again and more.
double StepRules::least_gain() const {
  return forcing_.is_loose() ? runtime::StepRule{}.least_gain : 1.0;
}

/// With g·δ ≈ −2 × the model's decrease, as where the damping is small, the parabola's minimum lies
/// at 1 / (2 − gain).
std::optional<double> StepRules::other_length(const StepReport& report) const {
  if (!options_->rescale_steps || options_->use_nonmonotonic_steps) return std::nullopt;
  const runtime::StepRule rule{.least_gain = least_gain()};
  const double gain = (point_.cost - report.trial_cost) / report.model_decrease;
  if (!(report.model_decrease > 0) || !(gain > rule.least_gain)) return std::nullopt;
  const double lowest =
      parabola_minimiser(-2 * report.model_decrease, 1, report.trial_cost - point_.cost);
  const double length = std::isnan(lowest) ? rule.longest : std::min(lowest, rule.longest);
  if (std::abs(length - 1) < rule.least_change) return std::nullopt;
  return length;
}

bool StepRules::take_length(StepReport& report, double length, const StepReport& other) {
  if (!(other.trial_cost < report.trial_cost)) return false;
  if (length < 1) report.model_decrease *= length * (2 - length);
  report.step_norm = other.step_norm;
  report.trial_cost = other.trial_cost;
  return true;
}

StepFacts StepRules::judge(const StepReport& report) const {
  StepFacts facts;
  if (!std::isfinite(report.model_decrease)) return facts;  // there was no trial
  facts.valid = report.model_decrease > 0;
  facts.change = point_.cost - report.trial_cost;
  if (!facts.valid) return facts;
  facts.nonfinite = !std::isfinite(report.trial_cost);
  if (!facts.nonfinite) facts.gain = facts.change / report.model_decrease;
  return facts;
}

bool StepRules::accepts(const StepFacts& facts, const StepReport& report) {
  const bool hidden =
      facts.valid && hidden_.hides(point_.cost, facts.change, report.model_decrease);
  // An engine's verdict stands: it rounds in its own way.
  const bool accepted = (hidden_.last() && hidden) ||
                        report.accepted.value_or(facts.gain > options_->min_relative_decrease);
  hidden_.set_last(hidden);
  return accepted;
}

void StepRules::take(const StepFacts& facts, const StepReport& report, bool shortened) {
  invalid_in_a_row_ = 0;
  const bool gains = facts.change > cost_noise(point_, norms_.here, options_->precision);
  idle_in_a_row_ = gains ? 0 : std::min(idle_in_a_row_ + 1, kStuck + 1);
  if (shortened) {
    region_.rejected();
  } else if (!undamped_ && !hidden_.last()) {
    const bool slow = options_->scale_free && !terms_.curvature_jumps && last_change_ > 0 &&
                      facts.change > kSlow * last_change_;
    region_.accepted(facts.gain, report.scaled_step_norm, slow);
  }
  exact_ = retries_ = false;
  last_change_ = facts.change;
  undamped_ = options_->method == Method::gauss_newton;
}

Verdict StepRules::after_take(const StepFacts& facts, const StepReport& report,
                              const runtime::PointReport& before, double share) {
  damped_steps_ = share > kMostlyDamped ? std::min(damped_steps_ + 1, kMostWaits) : 0;
  Verdict verdict;
  // Damped steps on a parabola lower each |g_i| / ‖J_i‖, or nearly so, but not each |g_i|.
  const auto size = [&](const runtime::PointReport& at) {
    return options_->scale_free ? at.scaled_gradient_max : at.gradient_max_norm;
  };
  if (hidden_.last() && hidden_.follow(size(before), size(point_), share, region_))
    verdict = {End::rounding};
  const LastStep last{.decrease = report.model_decrease,
                      .change = facts.change,
                      .damped_share = share,
                      .noise = cost_noise(point_, norms_.here, options_->precision)};
  const Verdict by_step = check_taken(facts, report, before, last);
  if (!by_step && !verdict) exact_ = may_leave_out_damping(last);
  return by_step ? by_step : verdict;
}

/// Pivots that vanished may hide more than this. Without damping they vanish in each step of a
/// singular problem, so that only what is known counts.
bool StepRules::hides(const StepReport& report, double bound) const {
  const bool damped = options_->method != Method::gauss_newton;
  // No step gains more than the cost.
  return std::min(report.hidden_decrease, point_.cost) > bound &&
         (damped || std::isfinite(report.hidden_decrease));
}

/// Changes of the cost that say nothing about a step. A tolerance below the rounding of f64 asks
/// for all that steps can reach: then the least radius ends the solve.
double StepRules::hiding_noise() const {
  const bool looks = options_->scale_free && !ends_by_gradient(*options_) &&
                     options_->function_tolerance > std::numeric_limits<double>::epsilon();
  const double noise = looks ? rounding_noise() : 0;
  return is_drowned(noise) ? 0 : noise;
}

/// Goes on with less damping where that may gain more than the last steps have; false where it may
/// not, or was tried.
bool StepRules::widen(const LastStep& step) {
  if (!options_->scale_free || ends_by_gradient(*options_) || !damping_hides_more(step))
    return false;
  const bool dogleg = options_->method == Method::dogleg;
  const double most = dogleg ? refused_radius_ : 1 / undamped_lambda(options_->precision);
  return region_.widen(kWidening, std::min(refused_radius_, most));
}

/// Steps with ever more damping promise no more than the tolerance, and none was taken.
Verdict StepRules::end_of_retries(const StepFacts& facts, const LastStep& last, double resolution) {
  if (!retries_ || !facts.valid || !(last.decrease <= resolution)) return {};
  retries_ = false;
  return {End::predicted_change, last.decrease, resolution};
}

/// Second derivatives leave no more to gain than the bound.
Verdict StepRules::end_of_exact(double bound) const {
  return is_exact_minimum(bound) ? Verdict{End::predicted_change, exact_gain_, bound} : Verdict{};
}

/// Keeps what the first step that is refused at a point has promised.
void StepRules::note_promise(double decrease, double resolution) {
  first_trial_.expected = decrease;
  // However loosely a system is solved, its step promises something unless the gradient is zero.
  first_trial_.nothing_to_gain =
      decrease == 0 || (decrease <= resolution && forcing_.trusts_last());
}

/// One row may round by so much that the cost says nothing about other unknowns in one step alone:
/// counts refused steps whose promise only rounding hides, and is true until they are enough.
bool StepRules::waits_for_more(double noise) {
  const bool by_rounding = first_trial_.expected > options_->function_tolerance * point_.cost &&
                           noise < kLargeNoise * point_.cost;
  return by_rounding && ++first_trial_.hidden < kMostHidden;
}

/// A refused step changes the cost, or with Ceres' rules the unknowns, by no more than their bound.
bool StepRules::moves_nothing(const StepFacts& facts, const StepReport& report,
                              double resolution) const {
  const SolverOptions& o = *options_;
  if (first_trial_.open || o.scale_free) return std::abs(facts.change) <= resolution;
  return facts.valid &&
         report.step_norm <= o.parameter_tolerance * (point_.x_norm + o.parameter_tolerance);
}

Verdict StepRules::refuse(const StepFacts& facts, const StepReport& report, double share) {
  const SolverOptions& o = *options_;
  idle_in_a_row_ = std::min(idle_in_a_row_ + 1, kStuck + 1);
  damped_steps_ = std::min(damped_steps_ + 1, kMostWaits);
  if (std::exchange(exact_, false)) {
    waits_ = most_waits_ = std::min(2 * most_waits_ + 1, kMostWaits);
    return {};
  }
  const double noise = hiding_noise();
  const double resolution = std::max(o.function_tolerance * point_.cost, noise);
  if (first_trial_.open) note_promise(std::abs(report.model_decrease), resolution);
  const LastStep last{.decrease = report.model_decrease,
                      .change = facts.change,
                      .damped_share = share,
                      .noise = noise > 0 ? cost_noise(point_, norms_.here, o.precision) : 0};
  const bool hidden = std::abs(last.change) <= last.noise && last.decrease <= last.noise;
  const bool vanished = hides(report, resolution);
  if (vanished) first_trial_.nothing_to_gain = false;
  if (facts.valid && !hidden) refused_radius_ = std::min(refused_radius_, region_.radius());
  Verdict verdict = end_of_retries(facts, last, resolution);
  const bool widens = first_trial_.nothing_to_gain && widen(last);
  // Tiny steps of a small region say nothing unless the first one promised nothing, either.
  if (!waits_for_more(noise) && first_trial_.nothing_to_gain &&
      moves_nothing(facts, report, resolution) && !widens && may_claim(o.function_tolerance))
    verdict = {End::predicted_change, first_trial_.expected, resolution};
  const Verdict exact = end_of_exact(resolution);
  if (exact && std::abs(facts.change) <= resolution) verdict = exact;
  if (facts.valid) {
    invalid_in_a_row_ = 0;
    if (vanished)
      region_.limit(kLimit);
    else if (!undamped_ && !widens)
      region_.rejected();
  } else {
    if (!undamped_) region_.invalid();
    if (++invalid_in_a_row_ > o.max_consecutive_invalid_steps && !verdict)
      verdict = {End::no_usable_step, static_cast<double>(invalid_in_a_row_)};
  }
  forcing_.refused();
  undamped_ = false;
  first_trial_.open = false;
  return verdict;
}

/// The claim that no step lowers the cost by more than this share, against the gradient.
bool StepRules::may_claim(double share) const {
  if (!options_->scale_free || !(largest_cosine(point_, norms_) > most_optimality(share)))
    return true;
  if (is_exact_minimum(share * point_.cost)) return true;
  const double noise = rounding_noise();
  return point_.scaled_gradient_max * point_.scaled_gradient_max <= noise;
}

Verdict StepRules::check_taken(const StepFacts& facts, const StepReport& report,
                               const runtime::PointReport& before, const LastStep& last) {
  const SolverOptions& o = *options_;
  if (ends_by_gradient(o)) return {};
  const double tolerance = o.parameter_tolerance;
  const double cost_bound = o.function_tolerance * before.cost;
  const double step = o.scale_free ? point_.scaled_step_norm : report.step_norm;
  const double step_bound =
      tolerance * (o.scale_free ? residual_norm(before.cost) : before.x_norm + tolerance);
  way_ += step;
  // The cost of a minimum that unknowns reach at 0 goes on to fall, with ever smaller steps.
  const double digits = rounding_unit(o.precision) * way_;
  if (o.scale_free && step <= digits && point_.cost <= kZero * initial_cost_)
    return {End::step, step, digits};
  const bool promises = o.scale_free && o.function_tolerance > 0 && last.decrease > cost_bound;
  const bool costs_settle = std::fabs(facts.change) <= cost_bound;
  if (!costs_settle) refused_radius_ = std::numeric_limits<double>::infinity();
  if (!costs_settle && !(step <= step_bound && !promises)) return {};
  if (hides(report, std::max(cost_bound, last.noise))) {
    region_.limit(kLimit);
    return {};
  }
  if (costs_settle && is_exact_minimum(cost_bound))
    return {End::cost_change, facts.change, cost_bound};
  if (!forcing_.trusts_last() || widen(last)) return {};
  if (!may_claim(std::max(o.function_tolerance, costs_settle ? 0 : tolerance))) return {};
  // A step that brought little of what it promised was too long, and says nothing.
  if (promises && !terms_.penalties && facts.gain < kTooLong) return {};
  if (costs_settle) return {End::cost_change, facts.change, cost_bound};
  return {End::step, step, step_bound};
}

void StepRules::transfer_sizes(ir::StateRecord& record) {
  region_.transfer(record);
  forcing_.transfer(record);
}

void StepRules::transfer(ir::StateRecord& record) {
  record.value("noise of the cost at the start", start_noise_);
  record.value("undamped", undamped_);
  record.value("without damping", exact_);
  record.value("retries", retries_);
  record.value("cost of the last retry", retried_);
  record.value("unsettled promise", unsettled_);
  record.in_range("steps before one without damping", waits_, 0, kMostWaits);
  record.in_range("most of these", most_waits_, 0, kMostWaits);
  record.value("first trial", first_trial_.open);
  record.value("expected decrease", first_trial_.expected);
  record.value("nothing to gain", first_trial_.nothing_to_gain);
  record.in_range("steps that rounding hides", first_trial_.hidden, 0, 1 << 30);
  record.value("unit of the radius", radius_unit_);
  record.value("refused radius", refused_radius_);
  record.in_range("invalid steps in a row", invalid_in_a_row_, 0, 1 << 30);
  record.in_range("idle steps in a row", idle_in_a_row_, 0, kStuck + 1);
  record.value("last change of the cost", last_change_);
  record.value("way of the steps", way_);
  record.in_range("damped steps", damped_steps_, 0, kMostWaits);
  record.in_range("most damped steps", most_damped_steps_, kDampedSteps, kMostWaits);
  record.in_range("points before the next Hessian", exact_waits_, 0, kMostWaits);
  record.in_range("most of these points", most_exact_waits_, 0, kMostWaits);
}

}  // namespace topograd
