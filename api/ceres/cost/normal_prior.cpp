// NormalPrior: the residuals A (x - b).
#include "normal_prior.hpp"

#include "../../../ir/error.hpp"

#include <string>

namespace ceres {

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
