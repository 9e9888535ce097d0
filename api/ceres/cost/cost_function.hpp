// Cost functions: a residual vector and its Jacobians by the parameter blocks that it reads.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "../../../frontend/value/math.hpp"
#include "../types/types.hpp"

namespace ceres {

/// Residuals and derivatives as code that only the CPU can run.
///
/// Solvers call Evaluate on one thread at a time.
class CostFunction {
 public:
  CostFunction() = default;
  CostFunction(const CostFunction&) = delete;
  CostFunction& operator=(const CostFunction&) = delete;
  virtual ~CostFunction();

  /// Computes residuals and derivatives at a point; returns false outside of the domain.
  ///
  ///   parameters  one pointer per block, to parameter_block_sizes()[i] numbers
  ///   residuals   num_residuals() numbers, out
  ///   jacobians   nullptr, or for each block nullptr or (num_residuals(), size) row-major, out
  virtual bool Evaluate(double const* const* parameters, double* residuals,
                        double** jacobians) const = 0;

  const std::vector<std::int32_t>& parameter_block_sizes() const { return parameter_block_sizes_; }
  int num_residuals() const { return num_residuals_; }

 protected:
  std::vector<std::int32_t>* mutable_parameter_block_sizes() { return &parameter_block_sizes_; }
  void set_num_residuals(int num_residuals) { num_residuals_ = num_residuals; }

 private:
  std::vector<std::int32_t> parameter_block_sizes_;
  int num_residuals_ = 0;
};

/// A cost function with sizes known at compile time; kNumResiduals may be DYNAMIC.
template <int kNumResiduals, int... Ns>
class SizedCostFunction : public CostFunction {
 public:
  static_assert(kNumResiduals > 0 || kNumResiduals == DYNAMIC,
                "the number of residuals is positive, or DYNAMIC");
  static_assert(sizeof...(Ns) > 0, "a cost function has a parameter block");
  static_assert(((Ns > 0) && ...), "the sizes of parameter blocks are positive");

  SizedCostFunction() {
    set_num_residuals(kNumResiduals);
    *mutable_parameter_block_sizes() = {Ns...};
  }
};

/// A cost function with sizes set at run time, one after the other.
class DynamicCostFunction : public CostFunction {
 public:
  virtual void AddParameterBlock(int size) { mutable_parameter_block_sizes()->push_back(size); }
  virtual void SetNumResiduals(int num_residuals) { set_num_residuals(num_residuals); }
};

namespace internal {

/// A cost function that is traced into an expression, so that any backend can run it.
class Traceable {
 public:
  virtual ~Traceable();
  /// Calls the functor with Values; returns false if it does or if it does not accept Values.
  ///
  ///   parameters  one pointer per block
  ///   residuals   num_residuals() Values, out
  virtual bool Trace(const topograd::Value* const* parameters,
                     topograd::Value* residuals) const = 0;
  /// True if an exception of a Value would end the program in the functor.
  virtual bool IsNoexcept() const { return false; }
};

}  // namespace internal
}  // namespace ceres

namespace topograd {

/// True if AutoDiffCostFunction compiles the functor for Values. Specialise it as false for a
/// functor that does not compile (one that uses members of its scalar) and should run on the CPU.
template <class Functor>
inline constexpr bool traced_functor = true;

}  // namespace topograd

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
