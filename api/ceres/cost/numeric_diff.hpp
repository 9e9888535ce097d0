// Jacobians by finite differences, and the sizes of their steps.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "../types/types.hpp"

namespace ceres {

/// Step sizes of NumericDiffCostFunction; names and defaults are those of Ceres.
struct NumericDiffOptions {
  double relative_step_size = 1e-6;  ///< step divided by |x|, for FORWARD and CENTRAL
  double ridders_relative_initial_step_size = 1e-2;
  int max_num_ridders_extrapolations = 10;
  double ridders_epsilon = 1e-12;         ///< estimated error at which the extrapolation stops
  double ridders_step_shrink_factor = 2;  ///< ratio of successive steps, > 1
};

}  // namespace ceres

namespace ceres::internal {

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

}  // namespace ceres::internal
