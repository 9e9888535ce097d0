// NumericDiffCostFunction and DynamicNumericDiffCostFunction: Jacobians by finite differences.
#pragma once

#include "functor.hpp"
#include "numeric_diff.hpp"

#include <memory>
#include <utility>

namespace ceres {

/// Residuals of a functor `bool operator()(const double* block0, ..., double* residuals) const`, or
/// of another CostFunction, differentiated numerically. Runs on the CPU.
template <typename CostFunctor, NumericDiffMethodType method = CENTRAL, int kNumResiduals = 0,
          int... Ns>
class NumericDiffCostFunction final : public SizedCostFunction<kNumResiduals, Ns...> {
 public:
  explicit NumericDiffCostFunction(CostFunctor* functor, Ownership ownership = TAKE_OWNERSHIP,
                                   int num_residuals = kNumResiduals,
                                   const NumericDiffOptions& options = NumericDiffOptions())
      : functor_(functor, ownership), options_(options) {
    if (kNumResiduals == DYNAMIC) this->set_num_residuals(num_residuals);
  }
  explicit NumericDiffCostFunction(std::unique_ptr<CostFunctor> functor,
                                   int num_residuals = kNumResiduals,
                                   const NumericDiffOptions& options = NumericDiffOptions())
      : functor_(std::move(functor)), options_(options) {
    if (kNumResiduals == DYNAMIC) this->set_num_residuals(num_residuals);
  }

  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    using Sizes = internal::BlockSizes<Ns...>;
    const auto f = [&](double const* const* x, double* out) {
      return internal::Call(*functor_, x, out, Sizes());
    };
    if (!f(parameters, residuals)) return false;
    if (jacobians == nullptr) return true;
    return internal::NumericJacobian(f, method, options_, this->parameter_block_sizes(), parameters,
                                     {residuals, static_cast<std::size_t>(this->num_residuals())},
                                     jacobians);
  }

  const CostFunctor& functor() const { return *functor_; }

 private:
  internal::Owned<CostFunctor> functor_;
  NumericDiffOptions options_;
};

/// Like NumericDiffCostFunction, for `bool operator()(double const* const* parameters, double*
/// residuals) const` over blocks that are added one after the other.
template <typename CostFunctor, NumericDiffMethodType method = CENTRAL>
class DynamicNumericDiffCostFunction final : public DynamicCostFunction {
 public:
  explicit DynamicNumericDiffCostFunction(const CostFunctor* functor,
                                          Ownership ownership = TAKE_OWNERSHIP,
                                          const NumericDiffOptions& options = NumericDiffOptions())
      : functor_(functor, ownership), options_(options) {}

  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    const auto f = [&](double const* const* x, double* out) {
      if constexpr (std::is_base_of_v<CostFunction, CostFunctor>) {
        return functor_.get()->Evaluate(x, out, nullptr);
      } else {
        return (*functor_)(x, out);
      }
    };
    if (!f(parameters, residuals)) return false;
    if (jacobians == nullptr) return true;
    return internal::NumericJacobian(f, method, options_, this->parameter_block_sizes(), parameters,
                                     {residuals, static_cast<std::size_t>(this->num_residuals())},
                                     jacobians);
  }

  const CostFunctor& functor() const { return *functor_; }

 private:
  internal::Owned<const CostFunctor> functor_;
  NumericDiffOptions options_;
};

}  // namespace ceres
