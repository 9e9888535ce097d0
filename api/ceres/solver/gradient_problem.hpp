// GradientProblem: minimisation of a scalar cost with a gradient.
#pragma once

#include "../cost/first_order_function.hpp"
#include "../manifold/local_parameterization.hpp"
#include "../manifold/manifold.hpp"

#include <concepts>
#include <memory>

namespace ceres {

/// A first-order function of one parameter block, which may move on a manifold.
class GradientProblem {
 public:
  /// Takes ownership.
  explicit GradientProblem(FirstOrderFunction* function);
  /// Takes ownership of both. Throws Error{Shape} if the manifold's size is wrong.
  GradientProblem(FirstOrderFunction* function, Manifold* manifold);
  template <std::derived_from<LocalParameterization> Parameterization>
  GradientProblem(FirstOrderFunction* function, Parameterization* parameterization)
      : GradientProblem(function, static_cast<Manifold*>(new internal::ParameterizationManifold(
                                      parameterization, TAKE_OWNERSHIP))) {}

  int NumParameters() const { return function_->NumParameters(); }
  int NumTangentParameters() const {
    return manifold_ == nullptr ? NumParameters() : manifold_->TangentSize();
  }
  int NumLocalParameters() const { return NumTangentParameters(); }

  /// Cost and tangent-space gradient; `gradient` may be nullptr. Returns false outside of the
  /// domain.
  bool Evaluate(const double* parameters, double* cost, double* gradient) const;
  bool Plus(const double* x, const double* delta, double* x_plus_delta) const;

  const FirstOrderFunction* function() const { return function_.get(); }
  FirstOrderFunction* mutable_function() { return function_.get(); }
  const Manifold* manifold() const { return manifold_.get(); }
  Manifold* mutable_manifold() { return manifold_.get(); }

 private:
  std::unique_ptr<FirstOrderFunction> function_;
  std::unique_ptr<Manifold> manifold_;
};

}  // namespace ceres
