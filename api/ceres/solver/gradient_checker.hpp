// GradientChecker: a cost function's Jacobians against finite differences.
#pragma once

#include "../cost/cost_function.hpp"
#include "../cost/normal_prior.hpp"
#include "../cost/numeric_diff_options.hpp"
#include "../manifold/local_parameterization.hpp"
#include "../manifold/manifold.hpp"

#include <concepts>
#include <memory>
#include <string>
#include <vector>

namespace ceres {

/// Compares Jacobians of Evaluate with those of Ridders' method.
class GradientChecker {
 public:
  /// What a comparison found; "local" Jacobians are in tangent space.
  struct ProbeResults {
    bool return_value = false;
    Vector residuals;
    std::vector<Matrix> jacobians, local_jacobians;
    std::vector<Matrix> numeric_jacobians, local_numeric_jacobians;
    std::string error_log;  ///< one line an entry that differs too much; empty if none does
    double maximum_relative_error = 0;
  };

  /// Refers to all of them; `manifolds` is nullptr, or has a pointer a block, which may be nullptr.
  GradientChecker(const CostFunction* function, const std::vector<const Manifold*>* manifolds,
                  const NumericDiffOptions& options);
  /// The same of Ceres 2.1. A template, so that nullptr stands for no manifolds.
  template <std::same_as<LocalParameterization> Parameterization>
  GradientChecker(const CostFunction* function,
                  const std::vector<const Parameterization*>* parameterizations,
                  const NumericDiffOptions& options)
      : GradientChecker(function, static_cast<const std::vector<const Manifold*>*>(nullptr),
                        options) {
    if (parameterizations != nullptr) Adapt(*parameterizations);
  }

  /// Whether all entries agree to `relative_precision`; `results` may be nullptr.
  bool Probe(double const* const* parameters, double relative_precision,
             ProbeResults* results) const;

 private:
  void Adapt(const std::vector<const LocalParameterization*>& parameterizations);

  const CostFunction* function_;
  std::vector<const Manifold*> manifolds_;
  std::vector<std::shared_ptr<const Manifold>> adapters_;  ///< of parameterizations
  NumericDiffOptions options_;
};

}  // namespace ceres
