// Descent along directions, also within a box, and the escape from points without a gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "../checkpoint/checkpoints.hpp"
#include "../options.hpp"
#include "../step_control/line_search.hpp"
#include "../summary.hpp"
#include "control.hpp"

namespace topograd {

/// The active set of an objective with bounds; without them it does nothing.
///
/// A coordinate is held if the gradient pushes it against a bound that it is on, or would reach by
/// less than rounding. Directions are made from the other coordinates alone, so that the projection
/// of the step is a descent. Source: Bertsekas, Projected Newton Methods for Optimization Problems
/// with Simple Constraints (1982).
class Box {
 public:
  explicit Box(const Objective& objective);

  bool bounded() const { return objective_.bounded(); }
  /// Finds the held coordinates at x with gradient g.
  void look(std::span<const double> x, std::span<const double> g);
  /// By coordinate, 1: held. Empty without bounds.
  std::span<const std::uint8_t> held() const { return held_; }
  /// Sets the direction of held coordinates so that they end on their bounds.
  void finish(std::span<const double> x, std::span<double> direction) const;
  /// The length of a step along the direction beyond which the projection no longer moves; infinity
  /// if a coordinate has no bound there.
  double longest(std::span<const double> x, std::span<const double> direction) const;
  /// Norms of g without the coordinates that it pushes against their bounds.
  GradientNorms norms(std::span<const double> x, std::span<const double> g) const;
  /// Makes these coordinates of g 0.
  void project(std::span<const double> x, std::span<double> g) const;
  /// g·d over the coordinates that the projection lets move at x.
  double slope(std::span<const double> x, std::span<const double> g,
               std::span<const double> direction) const;

 private:
  /// The bound in the direction of this move.
  double bound(std::size_t k, double move) const {
    return move < 0 ? objective_.lower[k] : objective_.upper[k];
  }

  const Objective& objective_;
  std::vector<std::uint8_t> held_;
};

/// Chooses directions. Vectors are steps: Objective::steps() numbers.
class SearchDirection {
 public:
  virtual ~SearchDirection() = default;

  /// Computes the direction at x with gradient g. It need not lead down: if it does not, reset() is
  /// called, then compute() again.
  ///
  ///   held  non-zero: the coordinate is fixed and its direction is 0; empty: none is
  virtual void compute(std::span<const double> x, std::span<const double> g,
                       std::span<const std::uint8_t> held, std::span<double> direction) = 0;
  /// False if the last direction is −g, or −g times scales(), whose length no model of the cost has
  /// chosen.
  virtual bool has_model() const = 0;
  /// Squares of the lengths along the coordinates that have the same effect; empty: they are alike.
  virtual std::span<const double> scales() const { return {}; }
  virtual Settling settling() const { return Settling::newton; }
  /// Solves for the next directions exactly: a small step was made by one that was loose.
  virtual void tighten() {}
  /// Records an accepted step: length along the direction, the step, and the change of the
  /// gradient.
  virtual void moved(double length, std::span<const double> step,
                     std::span<const double> gradient_change) = 0;
  /// Forgets its history after a failure. Returns false if there is none.
  virtual bool reset() = 0;
  /// Saves or restores the history of `size` coordinates.
  virtual void transfer(ir::StateRecord& record, std::size_t size) = 0;
  /// Linear iterations of the last compute().
  virtual int linear_iterations() const { return 0; }
};

/// Units in which the coordinates of a step have the same effect.
class UnknownScales {
 public:
  virtual ~UnknownScales() = default;

  /// Takes ‖J_i‖² of residuals, or second derivatives of another cost, by coordinate: the largest
  /// so far count. One without any has that of the steepest one.
  void learn(std::span<const double> squares);
  /// Called before a direction from x is chosen.
  virtual void look_now_and_then(std::span<const double> /*x*/) {}
  /// 1 / square by coordinate. Empty while all roots are within a factor of 100: then the scales
  /// make no difference worth their cost.
  std::span<const double> scales() const { return scales_; }
  /// Has no scales from now on.
  void drop_scales();

 protected:
  void find_scales();

  std::vector<double> squares_;  // the largest so far
  bool dropped_ = false;

 private:
  std::vector<double> scales_;
};

/// Storage of points, gradients and directions, on the host or on an engine.
class DescentPath {
 public:
  struct StartPoint {
    double cost = 0;
    GradientNorms gradient;
  };
  struct Aim {
    double slope = 0;  ///< along the direction; 0 if none leads down
    double first = 0;  ///< first length to try
  };
  struct Kept {
    GradientNorms gradient;  ///< at the new point
    double step_norm = 0;
    double x_norm = 0;  ///< of the point before
  };

  virtual ~DescentPath() = default;
  virtual StartPoint begin() = 0;
  /// Chooses a direction.
  virtual Aim aim() = 0;
  virtual Settling settling() const = 0;
  virtual void tighten() {}  ///< SearchDirection::tighten()
  virtual LinePoint look(double length) = 0;
  /// Makes the last evaluated point the current point.
  virtual Kept keep() = 0;
  /// Forgets the history of directions. Returns false if there is none.
  virtual bool reset() = 0;
  /// Saves or restores the history of directions, after begin().
  virtual void transfer(ir::StateRecord& record) = 0;
  virtual void point(std::span<double> x) = 0;
  /// Linear iterations of the last aim().
  virtual int linear_iterations() const { return 0; }
  /// True if another path continues from here.
  virtual bool leaves() { return false; }
};

/// Minimises until a rule of the options stops it. Sets costs, history, steps, termination and
/// message of the summary; an existing history is continued. Returns false if the path leaves
/// before the end.
///
/// If a line search finds nothing, the direction is reset once. If that does not help, the
/// minimisation has converged if the decrease that the slopes along the line allow is below the
/// function tolerance or the rounding of the initial cost, and has failed otherwise.
///
///   checkpoints  null: none
///
/// Throws Error{NonFinite} if value or gradient are not finite at the start, and the errors of the
/// path.
bool descend(DescentPath& path, const SolverOptions& options, Summary& summary,
             Checkpoints* checkpoints = nullptr);

/// The same on the host: from x, which is always the best point, even after an exception. Points
/// are projected on the objective's box, and gradients leave out coordinates that are pushed
/// against their bounds (runtime/cpu/cpu_terms.hpp).
///
///   leaves  asked between steps, may be empty
bool descend(const Objective& objective, SearchDirection& direction, std::span<double> x,
             const SolverOptions& options, Summary& summary,
             const std::function<bool()>& leaves = {}, Checkpoints* checkpoints = nullptr);

/// The point of a descent, from which steps beside it are tried and taken.
class StepsBeside {
 public:
  /// All outlive it.
  StepsBeside(const Objective& objective, std::span<double> x, const SolverOptions& options,
              Summary& summary);

  double cost() const { return cost_; }
  /// Projected: 0 where bounds hold.
  std::span<const double> gradient() const { return gradient_; }
  /// The decrease of the cost by the step times `length`; NaN if it cannot be taken.
  double look(std::span<const double> step, double length);
  /// The gradient after the last step.
  std::span<const double> next_gradient() const { return next_; }
  /// Takes the last step. False if the callback ends the solve.
  bool take();

 private:
  const Objective& objective_;
  std::span<double> x_;
  const SolverOptions& options_;
  Summary& summary_;
  double cost_ = 0, there_ = 0, length_ = 1;
  std::vector<double> gradient_, next_, trial_, part_;
  int evaluations_ = 0;
};

/// After convergence, evaluates both sides of x along one seeded direction, at 10⁻³ of the root
/// mean square of x. If the cost decreases on both sides by more than rounding and the function
/// tolerance, x is a saddle or a concave kink and moves to the better side, as a step of the
/// history. Returns true if it has moved and nothing stops the solve: minimise again from there.
///
/// Does nothing after options.max_escapes escapes, or if operands outside their domains end a
/// solve.
///
/// Source: Jin et al., How to Escape Saddle Points Efficiently (2017), for the perturbation.
bool escape(const Objective& objective, std::span<double> x, const SolverOptions& options,
            Summary& summary);

}  // namespace topograd
