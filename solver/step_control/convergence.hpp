// Whether a step and its point show that least squares are at their end, or are hidden in rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "../../runtime/engine/damped_steps.hpp"
#include "../options.hpp"
#include "trust_region.hpp"

namespace topograd {

/// Judges steps by the gradient where neither the cost nor the linear model can tell whether they
/// are good. Only for solves that end by their gradient.
class HiddenSteps {
 public:
  explicit HiddenSteps(const SolverOptions& options);

  /// True if the change of the cost and the model's decrease are within the rounding of the cost.
  bool hides(double cost, double cost_change, double model_decrease) const;
  /// True if the last step was hidden: the next one is then judged by its gradient, too.
  bool last() const { return last_; }
  void set_last(bool hidden) { last_ = hidden; }
  /// Call after a hidden step: sizes the region by the gradients before and after it. Returns true
  /// if gradients fall no more.
  ///
  ///   damped_share  that of the step; NaN: unknown
  bool follow(double gradient_before, double gradient, double damped_share, TrustRegion& region);

 private:
  bool judges_;
  Precision precision_;
  bool last_ = false;
  double least_gradient_ = std::numeric_limits<double>::infinity();
  double most_radius_ = std::numeric_limits<double>::infinity();  // of steps that are held back
  int idle_ = 0;                                                  // hidden steps since it fell
};

/// Relative rounding unit of the numbers that costs are made of.
double rounding_unit(Precision precision);

/// True if rounding of the cost hides both what a step changes and what it promises.
bool rounding_hides(double cost, double change, double promised, Precision precision);

inline double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// ‖r‖ at a cost ½‖r‖².
inline double residual_norm(double cost) { return std::sqrt(2 * std::max(cost, 0.0)); }

/// ‖r‖ at a point and at the start of its minimisation.
struct ResidualNorms {
  double here = 0, start = 0;
};

/// ‖r‖, so that residuals that become zero end a solve, too: it counts as at least 10⁻¹⁰ of its
/// value at the start, and as 10⁻⁴ of it where that is less than 10⁻⁵ √Σ (‖J_i‖ x_i)².
double residual_unit(const runtime::PointReport& point, const ResidualNorms& norms);

/// Largest cosine between the residuals and a column of the Jacobian, over free unknowns that no
/// bound holds: max |g_i| / (‖J_i‖ residual_unit()). It does not depend on units of residuals and
/// unknowns, nor on the origin of coordinates, except where rounding hides the rest.
///
///   unit  residual_unit()
double optimality(const runtime::PointReport& point, const ResidualNorms& norms, double unit);

/// As optimality(), with the residuals as they are, however much rounding hides of them: they count
/// as at least 10⁻¹⁰ of their norm at the start. What a claim that nothing is left to gain is
/// compared with.
double largest_cosine(const runtime::PointReport& point, const ResidualNorms& norms);

/// Changes of the cost that rounding of its sum may hide.
double sum_noise(double cost, Precision precision);

/// Changes of the cost that rounding may hide: of its sum, and of residuals whose terms are as
/// large as J x.
///
///   norm  ‖r‖
double cost_noise(const runtime::PointReport& point, double norm, Precision precision);

/// Share of −g·δ that the damping λD keeps back, λ δ·Dδ / −g·δ: 0 for the Gauss–Newton step, nearly
/// 1 for a step along directions that the damping shortens to nothing. NaN if it is unknown.
double damped_share(const runtime::StepReport& step);

/// A step by which a solve could end.
struct LastStep {
  double decrease = 0;      ///< by the linear model
  double change = 0;        ///< of the cost; positive: it fell
  double damped_share = 0;  ///< damped_share()
  double noise = 0;         ///< cost_noise()
};

/// True if the step says little about what is left to gain: it lies in directions that the damping
/// shortens, and the model is good enough there for less damping.
bool damping_hides_more(const LastStep& step);

/// Largest optimality() at a point from which no step is claimed to lower the cost by more than
/// this share: a step in one unknown alone lowers the linear model by the square of its cosine.
double most_optimality(double share);

/// The point cannot be judged: squares of all derivatives underflow, or that of one overflows.
bool out_of_range(const runtime::PointReport& point);

}  // namespace topograd
