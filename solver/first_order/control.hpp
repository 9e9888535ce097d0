// History and termination of the minimisers of scalar objectives.
#pragma once

#include "../options.hpp"
#include "../step_control/solve_control.hpp"
#include "../summary.hpp"

#include <chrono>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace topograd {

/// Norms of a gradient.
struct GradientNorms {
  double max = 0;      ///< max |g_i|; NaN if there is one
  double squared = 0;  ///< ‖g‖²
};
GradientNorms norms_of(std::span<const double> gradient);
/// ‖v‖.
double norm_of(std::span<const double> v);
double dot(std::span<const double> a, std::span<const double> b);

/// Relative rounding unit of the cost.
double cost_unit(const SolverOptions& options);
/// A smaller change of the cost means convergence, or rounding, which scales with the initial cost.
double cost_resolution(const SolverOptions& options, double initial_cost, double cost);

/// Adds the seconds of its life.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

/// Keeps the history in a summary and decides when to stop. Tolerances are Ceres', relative to the
/// start with SolverOptions::scale_free.
class DescentControl {
 public:
  /// Both must outlive it. An existing history is continued.
  DescentControl(const SolverOptions& options, Summary& summary);

  bool finished() const { return control_.finished(); }
  void resume(bool finished) { control_.resume(finished); }
  void finish(Termination termination, std::string message) {
    control_.finish(termination, std::move(message));
  }

  /// Records the start. Throws Error{NonFinite} if value or gradient are not finite.
  void start(double cost, const GradientNorms& gradient);
  /// Records an accepted step, and stops if a tolerance is met.
  ///
  ///   cost      after the step; iteration.cost_change is the decrease
  ///   x_norm    ‖x‖ before the step; for monotone methods only
  ///   monotone  the method never goes uphill: a small change of cost means convergence
  void accepted(IterationSummary iteration, double cost, const GradientNorms& gradient,
                double x_norm, bool monotone);
  /// Records a rejected step.
  void rejected(IterationSummary iteration, const GradientNorms& gradient);

  double elapsed() const { return control_.elapsed(); }

 private:
  void record(IterationSummary iteration, const GradientNorms& norms);
  void check_limits(const GradientNorms& norms);
  void look_at_gradient(const IterationSummary& iteration, const GradientNorms& norms);

  const SolverOptions& options_;
  Summary& summary_;
  SolveControl control_;
  double least_gradient_ = std::numeric_limits<double>::infinity();  // of steps hidden in rounding
  int idle_ = 0;                                                     // such steps since it fell
};

}  // namespace topograd
