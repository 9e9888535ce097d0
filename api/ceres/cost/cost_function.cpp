// Cost functions: key functions, NormalPrior, and ConditionedCostFunction by the chain rule.
#include "cost_function.hpp"

#include <string>

#include "../../../ir/error.hpp"
#include "tiny_solver_functions.hpp"

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

NormalPrior::NormalPrior(const Matrix& A, const Vector& b) : A_(A), b_(b) {
  if (A.size() == 0 || b.size() != A.cols())
    throw topograd::Error(topograd::ErrorCode::Shape,
                          "NormalPrior: expected a vector of " + std::to_string(A.cols()) +
                              " (> 0) numbers beside the matrix, got " + std::to_string(b.size()));
  set_num_residuals(static_cast<int>(A.rows()));
  mutable_parameter_block_sizes()->push_back(static_cast<std::int32_t>(b.size()));
}

bool NormalPrior::Evaluate(double const* const* parameters, double* residuals,
                           double** jacobians) const {
  VectorRef(residuals, num_residuals()) = A_ * (ConstVectorRef(parameters[0], b_.size()) - b_);
  if (jacobians != nullptr && jacobians[0] != nullptr)
    MatrixRef(jacobians[0], A_.rows(), A_.cols()) = A_;
  return true;
}

bool NormalPrior::Trace(const topograd::Value* const* parameters,
                        topograd::Value* residuals) const {
  for (Eigen::Index r = 0; r < A_.rows(); ++r) {
    residuals[r] = A_(r, 0) * (parameters[0][0] - b_[0]);
    for (Eigen::Index c = 1; c < A_.cols(); ++c)
      residuals[r] += A_(r, c) * (parameters[0][c] - b_[c]);
  }
  return true;
}

}  // namespace ceres
