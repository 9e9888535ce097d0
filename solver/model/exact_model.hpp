// Second derivatives of the cost at a point of few unknowns: what they say is left to gain, and the
// step that they lead to.
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

/// A point of lower cost in a direction of negative curvature at the engine's point
/// (SaddleSearch). None where there is none, for more than kMostCurved unknowns, and without
/// has_exact_model(). The engine's point is as after exact_gain().
///
///   cost   at the point
///   least  gain that counts
std::optional<ExactStep> saddle_step(runtime::Engine& engine, const ProblemModel& model,
                                     double unit, double cost, double least,
                                     const ColumnFacts& columns);

/// A point of lower cost beside the engine's, along unknowns whose columns have vanished: at the
/// kink of |x|, and at the zero of x⁴, second derivatives say nothing either. Steps are as long as
/// it takes to change the cost by shares of it, so that units decide nothing: the exponent of their
/// length is found by bisection. None where there is none. The engine's point is as after
/// exact_gain().
///
///   unknowns  those that are looked along. Where a column explains what a step changes, it has not
///             vanished: an unknown of 1e-17 has no effect by its own size, either
///   squares   of the norms of all columns; empty: none explains anything
///   cost      at the point
///   least     gain that counts
///
/// Cost: some thirty evaluations for each unknown.
std::optional<ExactStep> kink_step(runtime::Engine& engine, const ProblemModel& model,
                                   std::span<const std::uint32_t> unknowns,
                                   std::span<const double> squares, double cost, double least);

}  // namespace topograd
