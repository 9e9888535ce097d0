// Damped least-squares steps: requests, reports, and the interface of engines that make them.
#pragma once

#include "../linear/choices.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace topograd::ir {
class StateRecord;
}

namespace topograd::runtime {

/// Cost (½ Σ r² over all rows, plus the energies) and norms at a point. Fixed scalars have zero
/// gradient and never move. Within a box, g_i is x_i less the projection of x_i − g_i in the norms,
/// as in Ceres.
struct PointReport {
  double cost = 0;
  double gradient_max_norm = 0;  ///< max |g_i|
  double gradient_norm = 0;      ///< ‖g‖
  double x_norm = 0;             ///< ‖x‖ over free scalars
  // The same norms with each scalar multiplied by the norm of its column of J: they are independent
  // of the units of the unknowns and have the unit of the residuals. Columns of zeros count as 0;
  // scalars on a bound against which the gradient pushes count as fixed. NaN: the engine has no
  // columns. Infinite: the square of a norm overflows.
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double scaled_gradient_max = kUnknown;   ///< max |g_i| / ‖J_i‖
  double scaled_gradient_norm = kUnknown;  ///< √Σ (g_i / ‖J_i‖)²
  double scaled_x_norm = kUnknown;         ///< √Σ (‖J_i‖ x_i)²
  double scaled_step_norm = kUnknown;      ///< of the step that led here; undefined without one
};

/// Conditions under which a trial step becomes the current point, and its length then.
struct StepRule {
  /// A step is accepted if the decrease of the cost over the model's exceeds this.
  double min_gain = 1e-3;
  /// Armijo's constant: the caller decides on a step if the cost falls by less than this part of
  /// StepReport::slope; 0: the engine decides on every step.
  double min_decrease = 0;
  /// If the gain is far from 1, another length is tried and the better one kept: 1 / (2 − gain) up
  /// to `longest`, for gains above `least_gain`, if it differs from 1 by `least_change`.
  bool rescales = true;
  double least_gain = -1, least_change = 0.2, longest = 2;
};

struct StepRequest {
  double lambda = 0;           ///< 1 / radius: damping λ D with D = clamped diagonal of JᵀJ
  double min_diagonal = 1e-6;  ///< clamps of the diagonal, in the scaled space
  double max_diagonal = 1e32;
  /// Scales columns by 1 / (1 + ‖column‖), as Ceres does. The norms are those of J at the engine's
  /// first step, and are kept while the unknowns are the same.
  bool jacobi_scaling = true;
  /// Scales columns by 1 / ‖column‖ instead, the norm being that of the first point of the solve
  /// where the column is not 0; there are no clamps before it. A change of units changes no step.
  bool scale_free = false;
  /// Damping of small problems on the host does not fall below that of the first norms.
  bool keeps_damping = false;
  bool energy_norm = false;  ///< CG stops in the norm of the preconditioner, √(r·M⁻¹r), not in ‖r‖
  double linear_tolerance = 1e-5;  ///< ‖residual of the normal equations‖ / ‖g‖ at which CG stops
  int max_linear_iterations = 500;
  double eta = 0;  ///< CG also stops if its model gains too little (GainTest); 0: never
  /// An engine may follow this rule, and then sets StepReport::accepted.
  std::optional<StepRule> rule;
};

struct StepReport {
  double model_decrease =
      0;  ///< cost(x) minus the linear model's ½‖r + Jδ‖²; positive for a useful step
  double step_norm = 0;         ///< ‖δ‖
  double scaled_step_norm = 0;  ///< in the norm of the trust region; dogleg steps only
  double trial_cost = 0;        ///< at x + δ; may be NaN or infinite
  double slope = 0;             ///< g·δ, within a box before its projection; 0: unknown
  double length = 1;            ///< of the step that was kept, over that of δ
  int linear_iterations = 0;
  std::uint64_t vanished_pivots = 0;  ///< of the engine's factor: their unknowns did not move
  /// Most by which the model could fall further in directions whose pivots vanished; infinite if
  /// some did and it is not known.
  double hidden_decrease = 0;
  double linear_seconds = 0;  ///< wall time of the linear solve in this call
  /// Set if the engine followed StepRequest::rule; the report is for the length that was kept.
  /// After an accepted step accept() and linearize() are still called, and return known results.
  std::optional<bool> accepted;
};

/// An ability (engine.hpp): damped steps. Within a box (Model::lower), the trial point is the
/// projection of x + δ and step_norm that of the remaining step. Scalars on a bound against which
/// the gradient pushes take no part in steps from there (Bertsekas, Projected Newton Methods,
/// 1982).
class DampedSteps {
 public:
  virtual ~DampedSteps() = default;

  /// Marks the next step as the first of another solve.
  virtual void begin_solve() {}
  /// Saves or restores what later steps read of earlier ones: the scaling of columns, the
  /// preconditioner. The point is the caller's; linearize() follows a restored state.
  virtual void transfer(ir::StateRecord& /*record*/) {}
  /// Computes cost, gradient and diagonal blocks at the current point, and keeps them for steps.
  virtual PointReport linearize() = 0;
  /// Solves (JᵀJ + λD) δ = −Jᵀr by conjugate gradients with the chosen preconditioner and moves to
  /// the trial point.
  virtual StepReport try_step(const StepRequest& request) = 0;
  /// Takes δ from the host (direct solvers); model_decrease is not set.
  virtual StepReport try_step(std::span<const double> delta) = 0;
  /// Copies the point of the last try_step().
  virtual void trial_point(std::span<double> x) = 0;
  virtual void accept() = 0;  ///< makes the trial point the current point

  /// The preconditioner of steps since begin_solve().
  virtual PreconditionerUse preconditioner() const { return {}; }
  /// The method by which steps multiply by JᵀJ.
  virtual NormalMatrixUse normal_matrix() const { return {}; }
};

/// An ability: steps of other lengths.
class StepLengths {
 public:
  virtual ~StepLengths() = default;
  /// Moves the trial point to x + length δ, with the δ of the last try_step(), and sets step_norm
  /// and trial_cost. Cost: one evaluation of the cost.
  virtual StepReport rescale_step(double length) = 0;
};

/// An ability: the solution of the linear system itself.
class LastStep {
 public:
  virtual ~LastStep() = default;
  /// Copies the δ of the last try_step().
  virtual void last_step(std::span<double> delta) = 0;
};

}  // namespace topograd::runtime
