// ConditionedCostFunction: applies a function of one number to each residual of a cost function.
#pragma once

#include "cost_function.hpp"

#include <memory>
#include <set>
#include <vector>

namespace ceres {

/// residual[k] = conditioners[k](residual[k] of the wrapped function). Runs on the CPU.
class ConditionedCostFunction final : public CostFunction {
 public:
  ///   conditioners  one per residual: nullptr to keep the residual, or a cost function with one
  ///                 residual and one parameter; may repeat
  ///   ownership     of the wrapped function and of the conditioners
  ///
  /// Throws Error{Shape} for a wrong number or size of conditioners, without taking ownership.
  ConditionedCostFunction(CostFunction* wrapped_cost_function,
                          const std::vector<CostFunction*>& conditioners, Ownership ownership);

  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override;

 private:
  CostFunction* wrapped_;
  std::vector<CostFunction*> conditioners_;
  std::vector<std::unique_ptr<CostFunction>> owned_;
};

}  // namespace ceres
