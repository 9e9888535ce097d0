// ConditionedCostFunction: residuals and Jacobians by the chain rule.
#include "conditioned_cost_function.hpp"

#include "../../../ir/error.hpp"

#include <string>

namespace ceres {
namespace {

void Check(const CostFunction& wrapped, const std::vector<CostFunction*>& conditioners) {
  const auto fail = [](const std::string& what) {
    throw topograd::Error(topograd::ErrorCode::Shape, "ConditionedCostFunction: expected " + what);
  };
  if (conditioners.size() != static_cast<std::size_t>(wrapped.num_residuals()))
    fail("a conditioner for each of " + std::to_string(wrapped.num_residuals()) +
         " residuals, got " + std::to_string(conditioners.size()));
  for (std::size_t k = 0; k < conditioners.size(); ++k) {
    const CostFunction* f = conditioners[k];
    if (f != nullptr &&
        (f->num_residuals() != 1 || f->parameter_block_sizes() != std::vector<std::int32_t>{1}))
      fail("conditioners that make one number of one, conditioner " + std::to_string(k) +
           " is another");
  }
}

}  // namespace

ConditionedCostFunction::ConditionedCostFunction(CostFunction* wrapped_cost_function,
                                                 const std::vector<CostFunction*>& conditioners,
                                                 Ownership ownership)
    : wrapped_(wrapped_cost_function), conditioners_(conditioners) {
  Check(*wrapped_, conditioners_);
  set_num_residuals(wrapped_->num_residuals());
  *mutable_parameter_block_sizes() = wrapped_->parameter_block_sizes();
  if (ownership != TAKE_OWNERSHIP) return;
  std::set<CostFunction*> all(conditioners_.begin(), conditioners_.end());
  all.insert(wrapped_);
  for (CostFunction* function : all) owned_.emplace_back(function);
}

bool ConditionedCostFunction::Evaluate(double const* const* parameters, double* residuals,
                                       double** jacobians) const {
  if (!wrapped_->Evaluate(parameters, residuals, jacobians)) return false;
  for (std::size_t r = 0; r < conditioners_.size(); ++r) {
    if (conditioners_[r] == nullptr) continue;
    const double argument = residuals[r];
    const double* block = &argument;
    double slope = 0;
    double* derivative = &slope;
    if (!conditioners_[r]->Evaluate(&block, &residuals[r],
                                    jacobians == nullptr ? nullptr : &derivative))
      return false;
    for (std::size_t b = 0; jacobians != nullptr && b < parameter_block_sizes().size(); ++b) {
      const auto size = static_cast<std::size_t>(parameter_block_sizes()[b]);
      for (std::size_t k = 0; jacobians[b] != nullptr && k < size; ++k)
        jacobians[b][r * size + k] *= slope;
    }
  }
  return true;
}

}  // namespace ceres
