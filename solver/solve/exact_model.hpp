// Second derivatives of the cost at a point of few unknowns: what they say is left to gain, and the
// step that they lead to.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../model/model.hpp"
#include "../step_control/newton_decrement.hpp"

#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// True if the Hessian can be taken: of a model in this process without manifolds, residuals on the
/// host and branches, on an engine that has second derivatives.
bool has_exact_model(runtime::Engine& engine, const ProblemModel& model);

/// −min g·d + ½ d·H d at the engine's point, with the exact gradient g and Hessian H of the cost:
/// ½ g·H⁻¹g. Fixed unknowns, and those that a bound holds, do not move.
///
/// Infinite where the model does not hold as far as its step leads: H is not positive definite
/// beyond rounding, or the gradient does not fall there (NewtonDecrement::gain_that_holds()).
/// Infinite, too, for more than kMostCurved unknowns, and without has_exact_model().
///
///   unit   relative rounding unit of the engine's numbers
///   noise  gradient_noise() at the point, by scalar; or empty
///   asked  unknowns that need some curvature, and whose own entries of the gradient have to fall
///          so, too; others without any curvature are left out
///
/// The engine's point is set anew: it is to be linearised again.
///
/// Cost: two gradients and a product with the Hessian for each unknown; kernels of the product.
double exact_gain(runtime::Engine& engine, const ProblemModel& model, double unit,
                  std::span<const double> noise, std::span<const LeastCurvature> asked = {});

/// The point that the exact model leads to.
struct ExactStep {
  std::vector<double> x;
  double cost = 0, step_norm = 0;
};

/// Takes −H⁻¹g from the engine's point. None where H is not positive definite beyond rounding or
/// the cost does not fall as the model says, for more than kMostCurved unknowns, and without
/// has_exact_model(). The engine's point is as after exact_gain().
///
///   cost  at the point
///
/// Source: Dennis, Gay, Welsch, An adaptive nonlinear least-squares algorithm, ACM TOMS 7 (1981),
/// for the change of models where residuals are large.
std::optional<ExactStep> exact_step(runtime::Engine& engine, const ProblemModel& model, double unit,
                                    double cost);

}  // namespace topograd
