// Checks the gradients of all residual blocks during a solve.
#include "gradient_checks.hpp"

#include "gradient_checker.hpp"
#include "report.hpp"

#include <utility>
#include <vector>

namespace ceres::internal {

topograd::IterationCallback GradientChecks::Before(topograd::IterationCallback next) {
  return [this, next = std::move(next)](const topograd::IterationSummary& iteration) {
    if (iteration.step_is_successful) {
      for (const auto& residual : problem_.residuals()) {
        error_ = Check(*residual);
        if (!error_.empty()) return topograd::CallbackReturn::SOLVER_ABORT;
      }
    }
    return next ? next(iteration) : topograd::CallbackReturn::SOLVER_CONTINUE;
  };
}

std::string GradientChecks::Check(const ResidualBlock& residual) const {
  std::vector<const Manifold*> manifolds;
  std::vector<const double*> values;
  std::string blocks;
  for (const ParameterBlock* block : residual.parameters) {
    manifolds.push_back(block->manifold);
    values.push_back(block->values);
    blocks += Format("%s%p", blocks.empty() ? "" : ", ", static_cast<const void*>(block->values));
  }
  NumericDiffOptions differences;
  differences.relative_step_size = options_.gradient_check_numeric_derivative_relative_step_size;
  GradientChecker::ProbeResults results;
  const GradientChecker checker(residual.cost, &manifolds, differences);
  if (checker.Probe(values.data(), options_.gradient_check_relative_precision, &results)) return "";
  return Format(
             "Gradient Error detected!\nExtra info for this residual: Residual block id %zu; "
             "depends on parameters [%s]\nWorst relative error was %g.\n",
             residual.position, blocks.c_str(), results.maximum_relative_error) +
         results.error_log;
}

}  // namespace ceres::internal
