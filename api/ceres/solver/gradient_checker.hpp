// GradientChecker: compares a cost function's Jacobians with finite differences.
#pragma once

#include "../cost/cost_function.hpp"
#include "../cost/numeric_diff.hpp"
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
  /// Result of a comparison; "local" Jacobians are in tangent space.
  struct ProbeResults {
    bool return_value = false;
    Vector residuals;
    std::vector<Matrix> jacobians, local_jacobians;
    std::vector<Matrix> numeric_jacobians, local_numeric_jacobians;
    std::string error_log;  ///< one line per entry that differs too much; otherwise empty
    double maximum_relative_error = 0;
  };

  /// Refers to all arguments. `manifolds` is nullptr or has one pointer (or nullptr) per block.
  GradientChecker(const CostFunction* function, const std::vector<const Manifold*>* manifolds,
                  const NumericDiffOptions& options);
  /// The same for Ceres 2.1. A template, so that nullptr means no manifolds.
  template <std::same_as<LocalParameterization> Parameterization>
  GradientChecker(const CostFunction* function,
                  const std::vector<const Parameterization*>* parameterizations,
                  const NumericDiffOptions& options)
      : GradientChecker(function, static_cast<const std::vector<const Manifold*>*>(nullptr),
                        options) {
    if (parameterizations != nullptr) Adapt(*parameterizations);
  }

  /// True if all entries agree to `relative_precision`; `results` may be nullptr.
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
