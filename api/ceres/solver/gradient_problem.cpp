// Gradient problems: evaluation in tangent space.
#include "gradient_problem.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace ceres {

FirstOrderFunction::~FirstOrderFunction() = default;

GradientProblem::GradientProblem(FirstOrderFunction* function) : function_(function) {}

GradientProblem::GradientProblem(FirstOrderFunction* function, Manifold* manifold)
    : function_(function), manifold_(manifold) {
  if (manifold != nullptr && manifold->AmbientSize() != NumParameters())
    throw topograd::Error(topograd::ErrorCode::Shape,
                          "GradientProblem: expected a manifold in blocks of " +
                              std::to_string(NumParameters()) + ", got one in blocks of " +
                              std::to_string(manifold->AmbientSize()));
}

bool GradientProblem::Evaluate(const double* parameters, double* cost, double* gradient) const {
  if (manifold_ == nullptr || gradient == nullptr)
    return function_->Evaluate(parameters, cost, gradient);
  std::vector<double> ambient(static_cast<std::size_t>(NumParameters()));
  return function_->Evaluate(parameters, cost, ambient.data()) &&
         manifold_->RightMultiplyByPlusJacobian(parameters, 1, ambient.data(), gradient);
}

bool GradientProblem::Plus(const double* x, const double* delta, double* x_plus_delta) const {
  if (manifold_ != nullptr) return manifold_->Plus(x, delta, x_plus_delta);
  std::transform(x, x + NumParameters(), delta, x_plus_delta, std::plus<>());
  return true;
}

}  // namespace ceres
