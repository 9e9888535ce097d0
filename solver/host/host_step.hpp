// Steps found on the host, in tangent coordinates: damped, or by the dogleg; projected on bounds.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../../runtime/model/model.hpp"
#include "../linear/step_solver.hpp"
#include "../options.hpp"
#include "host_engine.hpp"
#include "tangent_jacobian.hpp"
#include "tangent_system.hpp"

namespace topograd {

/// v ↦ vᵀ B v, B the model's symmetric positive semidefinite matrix.
using Quadratic = std::function<double(const Eigen::VectorXd&)>;

/// The point on the path 0, Cauchy point, Gauss–Newton point where it leaves the region ‖y‖ <= Δ.
/// Source: Nocedal & Wright, Numerical Optimization, 2nd ed., section 4.1.
Eigen::VectorXd dogleg_step(const Eigen::VectorXd& gradient, const Eigen::VectorXd& gauss_newton,
                            double radius, const Quadratic& quadratic);

/// The least value of gᵀy + ½ yᵀB y over ‖y‖ <= Δ in the plane of gradient and Gauss–Newton step.
/// Source: Byrd, Schnabel, Shultz, Approximate solution of the trust region problem by
/// minimization over two-dimensional subspaces (1988).
Eigen::VectorXd subspace_step(const Eigen::VectorXd& gradient, const Eigen::VectorXd& gauss_newton,
                              double radius, const Quadratic& quadratic);

/// Takes its steps with one HostEngine, whatever engine its calls name. Jacobian and gradient of
/// each accepted point come to the host.
///
/// Under bounds a trial point is the projection of the step, shortened as projected_step.hpp says;
/// and coordinates on a bound that the gradient holds them to take no part in the step (Bertsekas,
/// Projected Newton Methods, 1982), without which steps along a bound are short.
class HostStep final : public StepSolver {
 public:
  ///   engine   outlives the calls
  ///   options  resolved
  ///   model    the engine's
  ///   hint     what schur eliminates
  HostStep(HostEngine& engine, const runtime::Model& model, const SolverOptions& options,
           EliminationHint hint = {});
  ~HostStep() override;

  LinearSolver kind() const override { return system_->kind(); }
  /// Evaluations alone: the engine makes no steps.
  std::vector<runtime::Need> needs() const override;
  void begin_solve() override {
    found_scale_.resize(0);
    mu_ = kFirstMu;
    have_gauss_newton_ = keeps_gauss_newton_ = false;
  }
  void transfer(ir::StateRecord& record) override;
  void linearized(runtime::Engine& engine, runtime::PointReport& point) override;
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;
  bool knows_columns(const runtime::Engine& /*engine*/) const override { return true; }
  std::vector<double> column_squares(runtime::Engine& engine) override;
  /// Of a QR of the Jacobian.
  std::uint64_t most_undamped(const runtime::Engine& engine) const override;
  /// Not under bounds, where the projection has found the length, nor the dogleg, whose radius has.
  bool can_rescale(runtime::Engine& engine) const override;
  runtime::StepReport rescale(runtime::Engine& engine, double length) override;

 private:
  /// Scales columns by StepRequest's rule.
  void set_scale(const Eigen::VectorXd& norms);
  void add_scaled_norms(std::span<const double> x, const Eigen::VectorXd& norms,
                        runtime::PointReport& point) const;
  runtime::StepReport move(double length);
  Eigen::VectorXd damping_diagonal(const runtime::StepRequest& request) const;
  struct ByRows {
    Eigen::VectorXd y;
    double slope, decrease;  ///< as in StepReport
  };
  std::optional<ByRows> solve_by_rows(const Eigen::VectorXd& damping);
  std::optional<Eigen::VectorXd> damped(const runtime::StepRequest& request);
  std::optional<Eigen::VectorXd> dogleg(const runtime::StepRequest& request);
  bool find_gauss_newton(const runtime::StepRequest& request);
  std::unique_ptr<TangentSystem> make_system() const;

  HostEngine& engine_;
  const runtime::Model& model_;
  const SolverOptions options_;
  EliminationHint hint_;
  std::unique_ptr<TangentSystem> system_;
  std::unique_ptr<TangentJacobian> jacobian_;
  std::uint64_t revision_ = 0;   // of the model that jacobian_ describes
  Eigen::VectorXd found_scale_;  // by the norms so far, 0 for columns of zeros; empty: no point yet
  Eigen::VectorXd scale_;        // S: the same, 1 for columns of zeros
  Eigen::VectorXd free_scale_;   // S, 0 where a coordinate is held by its bound
  Eigen::VectorXd gradient_;     // S g
  Eigen::VectorXd delta_;        // the last step,
  double length_ = 0;            // share of the step that was tried last
  double cost_ = 0;
  // State of the dogleg, in coordinates scaled by √(clamped diagonal).
  Eigen::VectorXd radius_scale_, steepest_, gauss_newton_;
  bool have_gauss_newton_ = false, keeps_gauss_newton_ = false;  // restored, of the next point
  static constexpr double kFirstMu = 1e-8;                       // Ceres' least one
  double mu_ = kFirstMu;  // damping of the Gauss–Newton step, raised where the matrix is singular
};

}  // namespace topograd
