// Scalar objectives, and the history and termination of their minimisers.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "../minimize_function.hpp"
#include "../options.hpp"
#include "../step_control/convergence.hpp"
#include "../step_control/solve_control.hpp"
#include "../summary.hpp"

namespace topograd::ir {
class StateRecord;
}

namespace topograd {

/// True if a coordinate is in a set that may be empty.
inline bool is_held(std::span<const std::uint8_t> held, std::size_t k) {
  return !held.empty() && held[k] != 0;
}

/// Access to the best point while it is on a device.
struct BestElsewhere {
  std::function<void()> read;  ///< copies the point to the minimisation's x; empty: x has it

  /// Sets `read` while it lives; `elsewhere` may be null.
  class Scope {
   public:
    Scope(BestElsewhere* elsewhere, std::function<void()> read) : elsewhere_(elsewhere) {
      if (elsewhere_ != nullptr) elsewhere_->read = std::move(read);
    }
    ~Scope() {
      if (elsewhere_ != nullptr) elsewhere_->read = nullptr;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    BestElsewhere* elsewhere_;
  };
};

/// Norms of a gradient.
struct GradientNorms {
  double max = 0;       ///< max |g_i|; NaN if there is one
  double squared = 0;   ///< ‖g‖²
  double in_units = 0;  ///< max |g_i| / unit; 0: there are no units
  /// Returns the number that an absolute tolerance is compared with.
  double judged() const { return in_units > 0 && !std::isnan(max) ? in_units : max; }
};
GradientNorms norms_of(std::span<const double> gradient);
/// ‖v‖.
double norm_of(std::span<const double> v);

/// The first length to try along −gradient, of which no model is known. Scale-free, it is the one
/// on which a linear function falls by |cost|, or that moves by the size of x, whichever is
/// shorter; neither depends on units. Otherwise min(1, 1 / max |g|), as Ceres.
double first_length(bool scale_free, double cost, const GradientNorms& gradient, double x_norm);

/// A gradient in a measure without units: Σ |g_i| |way_i| / (2 decrease). Near the minimum of a
/// quadratic function that the solve has reached from afar, its square is the share of the decrease
/// that is still to come: 1e-3 promises 1e-6 of what has been gained. 0 without a gradient; NaN if
/// the cost has not fallen.
///
///   gradient  projected: 0 where bounds hold
///   way       from the start of the solve
///   decrease  of the cost since then
double optimality_of(std::span<const double> gradient, std::span<const double> way,
                     double decrease);

/// Σ v_k² scales_k; ‖v‖² if there are no scales.
double scaled_square(std::span<const double> v, std::span<const double> scales);

/// Records an accepted step that was made beside a descent, after its end. False if the caller's
/// callback ends the solve with it.
bool record_step_beside(IterationSummary step, const GradientNorms& norms,
                        const SolverOptions& options, Summary& summary);

/// A change of the cost below this many units of its rounding is invisible.
inline constexpr double kCostRounding = 64;
/// Relative rounding unit of the cost.
double cost_unit(const SolverOptions& options);
// A steep start says nothing about the end.

/// The cost after the first sixteenth to eighth of the steps.
double gentle_cost(const Summary& summary);
/// The cost before the last quarter to half of the steps, ten at least, and the largest max |g_i|
/// of these.
double recent_cost(const Summary& summary);
double recent_gradient(const Summary& summary);

/// A smaller change of the cost means convergence, or rounding, which scales with the recent cost.
/// The tolerance is a share of the cost or of its decrease after the steep steps, whichever is
/// less: a constant that is added to the cost changes nothing that matters.
double cost_resolution(const SolverOptions& options, const Summary& summary, double cost);
/// The decrease that may be left after CONVERGENCE at this cost: what the resolution hides, or the
/// square of the tolerance of steps as a share of what was gained.
double claimed_decrease(const SolverOptions& options, const Summary& summary, double cost);

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

/// How a method shows by its costs that it has converged.
enum class Settling {
  never,   ///< it goes uphill, too
  window,  ///< by the last tenth of its steps together, and at least five: its directions follow
           ///< curvature of a few steps only, so that one small change says nothing
  newton,  ///< by a step and the ratio of its decrease to that of the step before, if the next step
           ///< promises no more: one that leads back into a valley says nothing about the way along
           ///< it
  loose,   ///< the same, but its linear system was solved so loosely that the step says nothing
           ///< about weak directions: a small one asks for an exact one
};

/// Keeps the history in a summary and decides when to stop. Tolerances are relative to the start
/// with SolverOptions::scale_free, and else Ceres', with which the last step alone decides.
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
  /// Records an accepted step, and stops if a tolerance is met. Returns true if it would stop,
  /// but the step was loose.
  ///
  ///   cost      after the step; iteration.cost_change is the decrease
  ///   x_norm    ‖x‖ before the step; not for Settling::never
  bool accepted(IterationSummary iteration, double cost, const GradientNorms& gradient,
                double x_norm, Settling settling);
  /// Ends at a tolerance that the last step has met, if the next one promises no more than it.
  /// Returns true if it does.
  ///
  ///   decrease  that the next step promises
  bool settles(double decrease);
  void transfer(ir::StateRecord& record);
  /// Records a rejected step.
  void rejected(IterationSummary iteration, const GradientNorms& gradient);

  /// No step lowers the cost any more: a gradient within the tolerance is an end then.
  void stuck(const GradientNorms& gradient);

  double elapsed() const { return control_.elapsed(); }

 private:
  void record(IterationSummary iteration, const GradientNorms& norms);
  void check_limits(const GradientNorms& norms);
  bool still_falls(double gradient) const;
  /// The decrease and the largest step that must be small.
  struct Last {
    double decrease = 0, step = 0;
  };
  Last last_steps(const IterationSummary& iteration, Settling settling) const;
  /// A tolerance that a step meets.
  struct Met {
    bool by_cost = true;  ///< else by the length of the step
    double value = 0, bound = 0;
  };
  std::optional<Met> met_by(const IterationSummary& iteration, double x_norm,
                            Settling settling) const;
  void converge(const Met& met);
  void look_at_gradient(const IterationSummary& iteration, const GradientNorms& norms);

  const SolverOptions& options_;
  Summary& summary_;
  SolveControl control_;
  std::optional<Met> met_;  // by the last step, while it is not known what the next one promises
  double path_ = 0;         // sum of ‖step‖
  double last_two_ = 0, last_several_ = 0;  // decreases of the last steps together
  double least_gradient_ = std::numeric_limits<double>::infinity();  // of steps hidden in rounding
  int idle_ = 0;                                                     // such steps since it fell
};

}  // namespace topograd
