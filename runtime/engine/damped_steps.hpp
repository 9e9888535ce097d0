// Damped least-squares steps: what is asked for, what comes of it, and who makes them.
#pragma once

#include "../linear/normal_matrix.hpp"
#include "../linear/preconditioner.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace topograd::runtime {

/// Cost is ½ Σ r² over all rows, and the energies. Constant scalars have zero gradient and never
/// move. Within a box, g_i stands for x_i less the projection of x_i − g_i in the norms, as Ceres
/// has it.
struct PointReport {
  double cost = 0;
  double gradient_max_norm = 0;  ///< max |g_i|
  double gradient_norm = 0;      ///< ‖g‖
  double x_norm = 0;             ///< ‖x‖ over free scalars
  // The same where each scalar is multiplied by the norm of its column of J: changes of units of
  // the unknowns leave them, and they have the unit of the residuals. Columns of zeros count as 0,
  // scalars on a bound that the gradient holds them to as constant. NaN: the engine has no columns.
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double scaled_gradient_max = kUnknown;   ///< max |g_i| / ‖J_i‖
  double scaled_gradient_norm = kUnknown;  ///< √Σ (g_i / ‖J_i‖)²
  double scaled_x_norm = kUnknown;         ///< √Σ (‖J_i‖ x_i)²
  double scaled_step_norm = kUnknown;      ///< of the step that led here; no meaning without one
};

/// When a trial step becomes the current point, and of which length it is then.
struct StepRule {
  /// Cost's decrease over the model's, above which a step is accepted.
  double min_gain = 1e-3;
  /// Armijo's constant: a step is left to the caller where the cost does not fall by so much of
  /// StepReport::slope; 0: every step is decided.
  double min_decrease = 0;
  /// Where the gain is far from 1, another length is tried, and the better one of the two is kept:
  /// 1 / (2 − gain) up to `longest`, for gains above `least_gain`, where it differs from 1 by
  /// `least_change`.
  bool rescales = true;
  double least_gain = -1, least_change = 0.2, longest = 2;
};

struct StepRequest {
  double lambda = 0;           ///< 1 / radius: damping λ D with D = clamped diagonal of JᵀJ
  double min_diagonal = 1e-6;  ///< clamps of the diagonal, in the scaled space
  double max_diagonal = 1e32;
  /// Columns scaled by 1 / (1 + ‖column‖), as Ceres does; the norms are those of J where the
  /// engine's first step began, and stay so while the unknowns are the same.
  bool jacobi_scaling = true;
  /// Columns are scaled by 1 / ‖column‖ instead, and those that are 0 have no clamps, so that a
  /// change of units changes no step. Factors of small problems use 1 / (‖r‖ / |x_i| + ‖column‖).
  bool scale_free = false;
  bool energy_norm = false;  ///< CG stops in the norm of the preconditioner, √(r·M⁻¹r), not in ‖r‖
  double linear_tolerance = 1e-5;  ///< ‖residual of the normal equations‖ / ‖g‖ at which CG stops
  int max_linear_iterations = 500;
  double eta = 0;  ///< CG stops where its model gains no more, too (GainTest); 0: never
  /// An engine that can may follow it, and set StepReport::accepted.
  std::optional<StepRule> rule;
};

struct StepReport {
  double model_decrease =
      0;  ///< cost(x) minus the linear model's ½‖r + Jδ‖²; positive for a useful step
  double step_norm = 0;         ///< ‖δ‖
  double scaled_step_norm = 0;  ///< in the norm of the trust region; of steps by dogleg alone
  double trial_cost = 0;        ///< at x + δ; may be NaN or infinite
  double slope = 0;             ///< within a box: g·δ, of the step before it was projected
  int linear_iterations = 0;
  double linear_seconds = 0;  ///< part of the call that solved the linear system, wall time
  /// Set where the engine followed StepRequest::rule: the report is that of the length that was
  /// kept. Where it was accepted, accept() and linearize() are called all the same, and tell what
  /// is known.
  std::optional<bool> accepted;
};

/// An ability (abilities.hpp). Within a box (Model::lower), the trial point is the projection of
/// x + δ, step_norm that of what is left of the step; and scalars on a bound that the gradient
/// holds them to take no part in steps from there (Bertsekas, Projected Newton Methods, 1982).
class DampedSteps {
 public:
  virtual ~DampedSteps() = default;

  /// The next step is the first of another solve.
  virtual void begin_solve() {}
  /// Cost, gradient, diagonal blocks at the current point; kept for try_step.
  virtual PointReport linearize() = 0;
  /// Solves (JᵀJ + λD) δ = −Jᵀr by conjugate gradients with the preconditioner of the options,
  /// moves to the trial point.
  virtual StepReport try_step(const StepRequest& request) = 0;
  /// Takes δ from the host (direct solvers); model_decrease is not set.
  virtual StepReport try_step(std::span<const double> delta) = 0;
  /// The point that the last try_step() moved to.
  virtual void trial_point(std::span<double> x) = 0;
  virtual void accept() = 0;  ///< the trial point becomes the current point

  /// What these were preconditioned with since begin_solve().
  virtual PreconditionerUse preconditioner() const { return {}; }
  /// How these multiply by JᵀJ.
  virtual NormalMatrixUse normal_matrix() const { return {}; }
};

/// An ability: steps may have other lengths.
class StepLengths {
 public:
  virtual ~StepLengths() = default;
  /// Moves the trial point to x + length δ, with the δ of the last try_step(); step_norm and
  /// trial_cost are set. One evaluation of the cost.
  virtual StepReport rescale_step(double length) = 0;
};

/// An ability: the linear system of steps whose point another engine holds in higher precision
/// (solver/session/mixed_engine.hpp).
class LinearSystem {
 public:
  virtual ~LinearSystem() = default;
  /// Takes the place of Jᵀr in the steps from the current point; between linearize() and
  /// try_step().
  virtual void set_gradient(std::span<const double> g) = 0;
  /// Within a box: these scalars, and no others, take no part in steps from the current point; 1 =
  /// held. Between linearize() and set_gradient(). Throws Error{Unsupported} without a box.
  virtual void hold(std::span<const std::uint8_t> held) = 0;
  /// The δ of the last try_step().
  virtual void last_step(std::span<double> delta) = 0;
};

}  // namespace topograd::runtime
