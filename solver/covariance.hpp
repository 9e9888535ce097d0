// Covariance of a problem's parameters at a solution.
#pragma once

#include "../frontend/problem.hpp"
#include "options.hpp"

#include <Eigen/Core>

#include <initializer_list>
#include <memory>
#include <span>

namespace topograd {

/// How (JᵀJ)⁻¹ is found.
enum class CovarianceAlgorithm {
  sparse_qr,  ///< needs full rank
  dense_svd   ///< the pseudo-inverse, for small problems that lack rank
};

/// Names and defaults are Ceres'.
struct CovarianceOptions {
  CovarianceAlgorithm algorithm = CovarianceAlgorithm::sparse_qr;
  /// dense_svd: least ratio of the smallest to the largest eigenvalue of JᵀJ; > 0.
  double min_reciprocal_condition_number = 1e-14;
  /// dense_svd: number of smallest singular values that are left out; −1: those below the bound.
  int null_space_rank = 0;
  bool apply_loss_function = true;  ///< J is the corrected Jacobian
  SolverOptions solver;             ///< where J is evaluated
};

/// (JᵀJ)⁻¹ at the caller's values, in the coordinates of the problem's manifolds; with residuals
/// divided by their standard deviations it is the covariance of the parameters.
///
/// Constant scalars have covariance 0. Bounds are not looked at. Follows no later changes; the
/// problem outlives it.
class Covariance {
 public:
  /// Throws Error{InvalidArgument} for options out of range or a Jacobian whose rank is too low,
  /// naming coordinates without information, Error{NonFinite}, and what Evaluator throws.
  explicit Covariance(Problem& problem, const CovarianceOptions& options = {});
  ~Covariance();
  Covariance(Covariance&&) noexcept;
  Covariance& operator=(Covariance&&) noexcept;

  /// Of blocks a and b, (width, width) in the ambient space. Throws Error{WrongProblem},
  /// Error{InvalidArgument}. Cost: two triangular solves a coordinate of b.
  Eigen::MatrixXd block(const ParameterBlock& a, const ParameterBlock& b) const;
  /// The same in the tangent spaces; constant coordinates have no rows or columns here.
  Eigen::MatrixXd tangent_block(const ParameterBlock& a, const ParameterBlock& b) const;
  /// Of several blocks, all pairs side by side.
  Eigen::MatrixXd matrix(std::span<const ParameterBlock> blocks) const;
  Eigen::MatrixXd matrix(std::initializer_list<ParameterBlock> blocks) const {
    return matrix(std::span(blocks.begin(), blocks.size()));
  }
  Eigen::MatrixXd tangent_matrix(std::span<const ParameterBlock> blocks) const;
  Eigen::MatrixXd tangent_matrix(std::initializer_list<ParameterBlock> blocks) const {
    return tangent_matrix(std::span(blocks.begin(), blocks.size()));
  }
  /// Rank of the Jacobian in working precision.
  std::size_t rank() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
