// Second derivatives of the cost at a point: what they say is left to gain, the step that they lead
// to, and the way from a saddle or a kink.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../step_control/newton_decrement.hpp"
#include "model.hpp"

#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// True if the Hessian can be taken: of a model in this process without manifolds, residuals on the
/// host and branches, on an engine that has second derivatives.
bool has_exact_model(runtime::Engine& engine, const ProblemModel& model);

/// Facts of the Jacobian's columns at a point, by scalar; empty where they are not known.
struct ColumnFacts {
  std::vector<double> squares;  ///< of norms
  std::vector<double> noise;    ///< gradient_noise()
};

/// −min g·d + ½ d·H d at the engine's point, with the exact gradient g and Hessian H of the cost:
/// ½ g·H⁻¹g. Fixed unknowns, and those that a bound holds, do not move.
///
/// Infinite where the model does not hold as far as its step leads: H is not positive semidefinite
/// (NewtonDecrement::make_singular()), or the gradient does not fall there
/// (NewtonDecrement::gain_that_holds()). Infinite, too, for more than kMostCurved unknowns, and
/// without has_exact_model().
///
///   unit   relative rounding unit of the engine's numbers
///   asked  unknowns that need some curvature, and whose own entries of the gradient have to fall
///          so, too; others without any curvature are left out
///
/// The engine's point is set anew: it is to be linearised again.
///
/// Cost: two gradients and a product with the Hessian for each unknown; kernels of the product.
double exact_gain(runtime::Engine& engine, const ProblemModel& model, double unit,
                  const ColumnFacts& columns, std::span<const LeastCurvature> asked = {});

/// The point that the exact model leads to.
struct ExactStep {
  std::vector<double> x;
  double cost = 0, step_norm = 0;
};

/// Takes −(H + λ D)⁻¹g from the engine's point, with D of the squares and the first exact_damping()
/// of this many whose matrix is positive definite beyond rounding and whose step lowers the cost as
/// it says. None where there is none, for more than kMostCurved unknowns, and without
/// has_exact_model(). The engine's point is as after exact_gain().
///
/// Without column facts only the first is tried.
///
///   cost  at the point
///
/// Source: Dennis, Gay, Welsch, An adaptive nonlinear least-squares algorithm, ACM TOMS 7 (1981),
/// for the change of models where residuals are large.
std::optional<ExactStep> exact_step(runtime::Engine& engine, const ProblemModel& model, double unit,
                                    double cost, const ColumnFacts& columns, int tries);

/// A point at which a minimisation ends or gains nothing.
struct EndFacts {
  std::span<const double> x;      ///< the engine's point
  std::span<const double> start;  ///< of the minimisation
  double cost = 0;                ///< at the point
  double least = 0;               ///< gain that counts
  double unit = 0;                ///< relative rounding unit of the engine's numbers
  ColumnFacts columns = {};
  /// Steps come from the columns: where these decide along a direction, its curvature says nothing
  /// new.
  bool by_columns = true;
  /// Columns that have not vanished may depend on each other, as those of two terms that are the
  /// same: it is looked at if the unknowns are few.
  bool dependent = false;
  /// The gradient is exactly 0 at the start, which may be that of all unknowns together.
  bool nowhere = false;
  bool turns = true;      ///< blocks on manifolds may be turned: a minimum is claimed
  bool foretold = false;  ///< TurnFacts::foretold
};

/// The answer of a search beside such a point.
struct BesideEnd {
  std::optional<ExactStep> step;  ///< a point of lower cost
  bool looked = false;            ///< the engine is to be linearised again
};

/// Looks for a point of lower cost beside the engine's, where the gradient and the linear model of
/// the residuals say nothing: first in a direction of negative curvature (SaddleSearch), then along
/// single unknowns (steps_beside()). It is looked for where the columns of unknowns have vanished
/// or depend on each other, and at kinks of residuals from which the cost falls.
///
/// Nothing is found for residuals on the host, branches and models of several processes.
/// Blocks on manifolds move by turned_blocks() alone, where a minimum is claimed.
///
/// Up to kMostCurved unknowns are taken together. Of more, those around vanished columns are taken
/// in groups of kMostCurved that share no residuals. Then the costs are those of the residuals that
/// read what moves, so that others decide nothing.
///
/// Cost: nothing but a search for kinks, and if columns may depend on each other a product with JᵀJ
/// for each of few unknowns, if there is nothing to look at; otherwise at most
/// kMostCurved products with the Hessian and some 200 evaluations of the cost, or of a million
/// residuals if these are more.
BesideEnd leave_saddle(runtime::Engine& engine, const ProblemModel& model, const EndFacts& at);

}  // namespace topograd
