// The key functions of cost functions.
#include "cost_function.hpp"

#include "../../../ir/error.hpp"
#include "tiny_solver_functions.hpp"

#include <string>

namespace ceres {

CostFunction::~CostFunction() = default;
internal::Traceable::~Traceable() = default;

void internal::CheckTinySizes(const CostFunction& cost_function, int num_residuals,
                              int num_parameters) {
  const auto fail = [](const std::string& expected, int got) {
    throw topograd::Error(
        topograd::ErrorCode::Shape,
        "TinySolverCostFunctionAdapter: expected " + expected + ", got " + std::to_string(got));
  };
  const auto& sizes = cost_function.parameter_block_sizes();
  if (sizes.size() != 1) fail("one parameter block", static_cast<int>(sizes.size()));
  if (num_residuals != Eigen::Dynamic && num_residuals != cost_function.num_residuals())
    fail(std::to_string(num_residuals) + " residuals", cost_function.num_residuals());
  if (num_parameters != Eigen::Dynamic && num_parameters != sizes[0])
    fail("a block of " + std::to_string(num_parameters), sizes[0]);
}

}  // namespace ceres
