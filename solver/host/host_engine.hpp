// An engine with what only the host can do beside it: opaque blocks, manifolds, bounds.
#pragma once

#include "../../runtime/engine/outer_engine.hpp"
#include "../model/host_terms.hpp"
#include "tangent_space.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// Adds the problem's host blocks to what another engine evaluates, keeps the point on the host in
/// double, and moves it within manifolds and bounds.
///
/// linearize() reports the gradient's norms as Ceres does: of x less the projection of x − g.
class HostEngine final : public runtime::OuterEngine,
                         public runtime::DampedSteps,
                         public runtime::SecondDerivatives,
                         public runtime::SeveralValues,
                         public runtime::KnownPoint {
 public:
  ///   inner  holds the traced residuals of the same problem
  ///   model  that it was made from; both it and the problem outlive the engine
  HostEngine(runtime::Engine& inner, const Problem& problem, const runtime::Model& model,
             bool with_losses);

  /// Evaluations run at once: host blocks are evaluated here, with the rest. Steps of other lengths
  /// are the caller's: try_tangent() takes a length.
  runtime::Abilities abilities() override;
  /// Data, uniforms and flags; host blocks and manifolds are read again as well.
  void refresh(const runtime::Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override;
  bool last_known_point(std::span<double> x) override;
  double cost() override;
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  /// In turn: host blocks are added to each.
  void evaluate(const runtime::Values& wanted) override {
    runtime::evaluate_unless_refused(*this, wanted);
  }
  void jacobian(std::size_t term, std::span<double> values) override;
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override;
  void jtjp(std::span<const double> p, std::span<double> out) override;

  /// Throws Error{Unsupported} if there are host blocks, which have no second derivatives.
  void hvp(std::span<const double> p, std::span<double> out) override;
  void hessian(std::size_t term, bool project, std::span<double> values) override;

  runtime::PointReport linearize() override;
  /// Steps in ambient coordinates; steps on the host are made with try_tangent().
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override {
    std::copy(trial_.begin(), trial_.end(), x.begin());
  }
  void accept() override;

  const TangentSpace& space() const { return *space_; }
  const HostTerms& host() const { return *host_; }
  /// Evaluates the host blocks' Jacobians at the point.
  void evaluate_host();
  /// Bases of the tangent spaces at the point.
  std::span<const double> basis();
  /// The gradient in tangent coordinates.
  std::span<const double> tangent_gradient();
  /// Moves to x ⊞ scale δ, δ in tangent coordinates; model_decrease is not set. A point that
  /// manifold or block refuse has a cost of NaN.
  runtime::StepReport try_tangent(std::span<const double> delta, double scale = 1);

 private:
  double trial_cost();
  void refuse_second_order(const char* call) const;
  void move_inner(const std::vector<double>& x, bool trial);

  const Problem& problem_;
  const runtime::Model* model_;
  bool with_losses_;
  std::unique_ptr<TangentSpace> space_;
  std::unique_ptr<HostTerms> host_;
  std::vector<double> x_, trial_, rows_, basis_, gradient_, scaled_;
  std::optional<double> host_cost_, trial_host_cost_;  // at x_ and trial_
  bool inner_at_trial_ = false, host_is_current_ = false, host_has_value_ = false;
  bool basis_is_current_ = false, basis_is_there_ = false, gradient_is_current_ = false;
};

}  // namespace topograd
