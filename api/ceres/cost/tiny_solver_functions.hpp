// Functions for TinySolver: functors on Jets, and cost functions of one block.
#pragma once

#include "../jet/jet.hpp"
#include "cost_function.hpp"

#include <Eigen/Core>

#include <array>
#include <vector>

namespace ceres {

namespace internal {
/// Throws topograd::Error{Shape} unless the cost function has one block and these sizes;
/// Eigen::Dynamic accepts any size.
void CheckTinySizes(const CostFunction& cost_function, int num_residuals, int num_parameters);
}  // namespace internal

/// A functor `bool operator()(const T* x, T* residuals) const` with its derivatives.
///
///   kNumResiduals  may be Eigen::Dynamic if the functor has NumResiduals()
template <typename CostFunctor, int kNumResiduals, int kNumParameters, typename T = double>
class TinySolverAutoDiffFunction {
 public:
  using Scalar = T;
  enum {
    NUM_PARAMETERS = kNumParameters,
    NUM_RESIDUALS = kNumResiduals,
  };

  /// The functor is not owned and must outlive this object.
  explicit TinySolverAutoDiffFunction(const CostFunctor& cost_functor)
      : cost_functor_(cost_functor) {}

  bool operator()(const T* parameters, T* residuals, T* jacobian) const {
    if (jacobian == nullptr) return cost_functor_(parameters, residuals);
    std::array<Jet<T, kNumParameters>, static_cast<std::size_t>(kNumParameters)> x;
    for (int k = 0; k < kNumParameters; ++k)
      x[static_cast<std::size_t>(k)] = Jet<T, kNumParameters>(parameters[k], k);
    const int rows = NumResiduals();
    std::vector<Jet<T, kNumParameters>> answers(static_cast<std::size_t>(rows));
    if (!cost_functor_(x.data(), answers.data())) return false;
    for (int r = 0; r < rows; ++r) {
      const Jet<T, kNumParameters>& answer = answers[static_cast<std::size_t>(r)];
      residuals[r] = answer.a;
      for (int k = 0; k < kNumParameters; ++k) jacobian[r + k * rows] = answer.v[k];
    }
    return true;
  }

  int NumResiduals() const {
    if constexpr (kNumResiduals == Eigen::Dynamic) {
      return cost_functor_.NumResiduals();
    } else {
      return kNumResiduals;
    }
  }

 private:
  const CostFunctor& cost_functor_;
};

/// A cost function of one parameter block; template sizes may be Eigen::Dynamic.
///
/// Throws topograd::Error{Shape} if the cost function has other sizes.
template <int kNumResiduals = Eigen::Dynamic, int kNumParameters = Eigen::Dynamic>
class TinySolverCostFunctionAdapter {
 public:
  using Scalar = double;
  enum ComponentSizeType {
    NUM_PARAMETERS = kNumParameters,
    NUM_RESIDUALS = kNumResiduals,
  };

  /// The cost function is not owned and must outlive this object.
  explicit TinySolverCostFunctionAdapter(const CostFunction& cost_function)
      : cost_function_(cost_function) {
    internal::CheckTinySizes(cost_function, kNumResiduals, kNumParameters);
    if (NumResiduals() > 1) row_major_.resize(NumResiduals(), NumParameters());
  }

  bool operator()(const double* parameters, double* residuals, double* jacobian) const {
    if (jacobian == nullptr) return cost_function_.Evaluate(&parameters, residuals, nullptr);
    // A matrix of one row is both row-major and column-major.
    double* rows[] = {NumResiduals() > 1 ? row_major_.data() : jacobian};
    if (!cost_function_.Evaluate(&parameters, residuals, rows)) return false;
    if (NumResiduals() > 1)
      Eigen::Map<Eigen::MatrixXd>(jacobian, NumResiduals(), NumParameters()) = row_major_;
    return true;
  }

  int NumResiduals() const { return cost_function_.num_residuals(); }
  int NumParameters() const { return cost_function_.parameter_block_sizes()[0]; }

 private:
  const CostFunction& cost_function_;
  mutable Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> row_major_;
};

}  // namespace ceres
