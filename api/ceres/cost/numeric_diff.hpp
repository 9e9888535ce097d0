// Jacobians by finite differences, and cost functions that have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "../types/types.hpp"
#include "functor.hpp"

namespace ceres {

/// Step sizes of NumericDiffCostFunction; names and defaults are those of Ceres.
struct NumericDiffOptions {
  double relative_step_size = 1e-6;  ///< step divided by |x|, for FORWARD and CENTRAL
  double ridders_relative_initial_step_size = 1e-2;
  int max_num_ridders_extrapolations = 10;
  double ridders_epsilon = 1e-12;         ///< estimated error at which the extrapolation stops
  double ridders_step_shrink_factor = 2;  ///< ratio of successive steps, > 1
};

namespace internal {

/// Computes residuals at a point; returns false outside of the domain.
using ResidualFunction = std::function<bool(double const* const* parameters, double* residuals)>;

/// Computes the blocks of `jacobians` that are not nullptr; returns false if a call of f does.
///
///   sizes       of the parameter blocks
///   residuals   at `parameters`; their number is the number of rows
///   jacobians   one pointer per block: nullptr, or (residuals.size(), size) row-major, out
///
/// Steps are at least sqrt(2^-52). Cost: per parameter one call of f (FORWARD), two (CENTRAL), or
/// up to twice max_num_ridders_extrapolations (RIDDERS). Source for RIDDERS: C. J. F. Ridders,
/// Accurate computation of F'(x) and F'(x) F''(x), Advances in Engineering Software 4(2), 1982:
/// Richardson extrapolation of central differences, stopped when its error estimate grows.
bool NumericJacobian(const ResidualFunction& f, NumericDiffMethodType method,
                     const NumericDiffOptions& options, std::span<const std::int32_t> sizes,
                     double const* const* parameters, std::span<const double> residuals,
                     double** jacobians);

}  // namespace internal

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
