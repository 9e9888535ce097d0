// Covariance of a problem's parameters at a solution.
#pragma once

#include "../frontend/problem.hpp"
#include "options.hpp"

#include <Eigen/Core>

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// How (JᵀJ)⁻¹ is computed.
enum class CovarianceAlgorithm {
  sparse_qr,  ///< by the Cholesky factor of JᵀJ where it has enough digits, else by one of J
  dense_svd   ///< by singular values, also the pseudo-inverse; for small problems
};

/// Options with the names and defaults of Ceres.
struct CovarianceOptions {
  CovarianceAlgorithm algorithm = CovarianceAlgorithm::sparse_qr;
  /// dense_svd: least ratio of the smallest to the largest eigenvalue of JᵀJ; > 0.
  double min_reciprocal_condition_number = 1e-14;
  /// dense_svd: number of smallest singular values to leave out; −1: those below the bound. The
  /// pseudo-inverse has entries for coordinates that the residuals do not determine, too.
  int null_space_rank = 0;
  bool apply_loss_function = true;  ///< J is the corrected Jacobian
  SolverOptions solver = {};        ///< backend for J
};

/// (JᵀJ)⁻¹ at the caller's values, in the coordinates of the problem's manifolds. If residuals are
/// divided by their standard deviations, it is the covariance of the parameters.
///
/// Where J lacks rank, blocks have a covariance that the residuals determine: it is the same for
/// all solutions of the linear least-squares problem. Others are errors that name them. Fixed
/// scalars have covariance 0. Bounds are ignored. With constraints, those that are active at the
/// last solve's end hold to first order: the covariance is Z (ZᵀJᵀJZ)⁻¹ Zᵀ with a basis Z of what
/// their gradients leave free, and unknowns on active bounds have covariance 0. Later changes of
/// the problem have no effect; the problem must outlive it.
class Covariance {
 public:
  /// Throws Error{InvalidArgument} for options out of range, Error{NonFinite}, with constraints the
  /// errors of Sensitivity, and the errors of Evaluator.
  explicit Covariance(Problem& problem, const CovarianceOptions& options = {});
  ~Covariance();
  Covariance(Covariance&&) noexcept;
  Covariance& operator=(Covariance&&) noexcept;

  /// Covariance of blocks a and b, (width, width) in the ambient space. Throws Error{WrongProblem},
  /// and Error{InvalidArgument} for a block with a coordinate that is not determined, which it
  /// names; so do the others. Cost: solves in a part of the factor, unless it has the pair itself.
  Eigen::MatrixXd block(const ParameterBlock& a, const ParameterBlock& b) const;
  /// The same in the tangent spaces, without rows and columns of fixed coordinates.
  Eigen::MatrixXd tangent_block(const ParameterBlock& a, const ParameterBlock& b) const;
  /// Covariance of several blocks: all pairs side by side, for less than one by one.
  Eigen::MatrixXd matrix(std::span<const ParameterBlock> blocks) const;
  Eigen::MatrixXd matrix(std::initializer_list<ParameterBlock> blocks) const {
    return matrix(std::span(blocks.begin(), blocks.size()));
  }
  Eigen::MatrixXd tangent_matrix(std::span<const ParameterBlock> blocks) const;
  Eigen::MatrixXd tangent_matrix(std::initializer_list<ParameterBlock> blocks) const {
    return tangent_matrix(std::span(blocks.begin(), blocks.size()));
  }
  /// Rank of the Jacobian in working precision; with constraints, of JZ.
  std::size_t rank() const;
  /// True if the block has a covariance. Throws Error{WrongProblem}, Error{InvalidArgument}.
  bool determines(const ParameterBlock& block) const;
  /// Names of all scalars, and of all blocks on manifolds, that the residuals do not determine.
  std::vector<std::string> undetermined() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
