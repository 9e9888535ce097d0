// Descent along directions with a line search: the outer loop of L-BFGS and of Newton's method.
#pragma once

#include "../options.hpp"
#include "../step_control/line_search.hpp"
#include "../summary.hpp"
#include "control.hpp"
#include "objective.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace topograd {

/// Says where to go. Vectors are steps: Objective::steps() numbers.
class SearchDirection {
 public:
  virtual ~SearchDirection() = default;

  /// Writes the direction at x, where the gradient is g. It need not lead down: where it does not,
  /// reset() is called and it is asked again.
  ///
  ///   held  non-zero: the coordinate is taken for constant, its direction is 0; empty: nowhere
  virtual void compute(std::span<const double> x, std::span<const double> g,
                       std::span<const std::uint8_t> held, std::span<double> direction) = 0;
  /// The first length along the direction that a line search tries.
  virtual double first_step(std::span<const double> g) const = 0;
  /// Hears of a step that was taken: its length along the direction, the step, and by how much the
  /// gradient changed.
  virtual void moved(double length, std::span<const double> step,
                     std::span<const double> gradient_change) = 0;
  /// Forgets what it has learnt, after a failure. False if there is nothing to forget.
  virtual bool reset() = 0;
  /// Linear iterations of the last compute().
  virtual int linear_iterations() const { return 0; }
};

/// Where points, gradients and directions are.
class DescentPath {
 public:
  struct Place {
    double cost = 0;
    GradientNorms gradient;
  };
  struct Aim {
    double slope = 0;  ///< along the direction; 0 if none leads down
    double first = 0;  ///< the first length to try
  };
  struct Kept {
    GradientNorms gradient;  ///< at the new point
    double step_norm = 0;
    double x_norm = 0;  ///< of the point before
  };

  virtual ~DescentPath() = default;
  virtual Place begin() = 0;
  /// Chooses a direction.
  virtual Aim aim() = 0;
  virtual LinePoint look(double length) = 0;
  /// The point that was looked at last becomes the point.
  virtual Kept keep() = 0;
  /// Forgets what directions are made from. False if there is nothing to forget.
  virtual bool reset() = 0;
  /// Linear iterations of the last aim().
  virtual int linear_iterations() const { return 0; }
  /// Somebody else goes on from here.
  virtual bool leaves() { return false; }
};

/// Minimises until a rule of the options ends it. Fills in costs, history, steps, termination and
/// message of the summary; one that has a history already is gone on with. False if the path
/// leaves before the end.
///
/// Where a line search finds nothing, the direction is reset once; after that the minimisation has
/// converged, if the decrease that the slope promised is below the function tolerance or the
/// rounding of the cost at the start, and failed otherwise.
///
/// Throws Error{NonFinite} if value or gradient are not finite at the start, and what the path
/// throws.
bool descend(DescentPath& path, const SolverOptions& options, Summary& summary);

/// The same on the host: from x, which holds the best point at all times, also after an exception.
/// Within the objective's box, points are projected on it and gradients are without what presses a
/// coordinate on its bound (box.hpp).
///
///   leaves  asked between steps, may be empty
bool descend(const Objective& objective, SearchDirection& direction, std::span<double> x,
             const SolverOptions& options, Summary& summary,
             const std::function<bool()>& leaves = {});

}  // namespace topograd
