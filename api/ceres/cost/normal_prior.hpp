// NormalPrior: the residuals A (x - b).
#pragma once

#include "cost_function.hpp"

#include <Eigen/Core>

namespace ceres {

using Vector = Eigen::Matrix<double, Eigen::Dynamic, 1>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using VectorRef = Eigen::Map<Vector>;
using MatrixRef = Eigen::Map<Matrix>;
using ConstVectorRef = Eigen::Map<const Vector>;
using ConstMatrixRef = Eigen::Map<const Matrix>;

/// Pulls one parameter block towards b, with weight A. If A is the inverse square root of a
/// covariance, this is the negative logarithm of a normal density.
class NormalPrior final : public CostFunction, public internal::Traceable {
 public:
  /// Throws Error{Shape} if the length of b is not the number of columns of A, or A is empty.
  NormalPrior(const Matrix& A, const Vector& b);
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override;
  bool Trace(const topograd::Value* const* parameters, topograd::Value* residuals) const override;

 private:
  Matrix A_;
  Vector b_;
};

}  // namespace ceres
