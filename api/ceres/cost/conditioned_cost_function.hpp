// ConditionedCostFunction: a cost function whose residuals pass through functions of one number.
#pragma once

#include "cost_function.hpp"

#include <memory>
#include <set>
#include <vector>

namespace ceres {

/// residual[k] = conditioners[k](residual[k] of the wrapped function). Runs on the CPU.
class ConditionedCostFunction final : public CostFunction {
 public:
  ///   conditioners  one a residual: nullptr for a residual that stays as it is, or a cost function
  ///                 of one number that gives one; they may repeat
  ///   ownership     of the wrapped function and of the conditioners
  ///
  /// Throws Error{Shape} if their number or sizes are others; nothing is owned then.
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
