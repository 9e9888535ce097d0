// Covariance of parameter blocks at a minimum.
#pragma once

#include "../types/types.hpp"
#include "problem.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace ceres {

namespace internal {
class CovarianceImpl;
}  // namespace internal

/// Blocks of (JᵀJ)⁻¹, J the robustified Jacobian in tangent space at the user's values.
class Covariance {
 public:
  struct Options {
    SparseLinearAlgebraLibraryType sparse_linear_algebra_library_type =
        EIGEN_SPARSE;  ///< without effect
    /// SPARSE_QR needs a Jacobian of full rank; DENSE_SVD can leave a null space out.
    CovarianceAlgorithmType algorithm_type = SPARSE_QR;
    /// DENSE_SVD: least ratio of the extreme eigenvalues of JᵀJ.
    double min_reciprocal_condition_number = 1e-14;
    /// DENSE_SVD: number of smallest singular values to leave out; -1: those below the ratio.
    int null_space_rank = 0;
    /// SPARSE_QR: columns that are shorter than this count as dependent; negative: chosen by Eigen.
    double column_pivot_threshold = -1;
    int num_threads = 1;  ///< without effect
    bool apply_loss_function = true;
  };

  explicit Covariance(const Options& options);
  ~Covariance();

  /// Computes the blocks that are named; both orders of a pair are available then. False if the
  /// Jacobian cannot be evaluated or is rank-deficient. Throws Error{InvalidArgument} for a block
  /// that is not in the problem or a pair that is named twice.
  ///
  /// Cost: a factorisation of J, and two triangular solves for each column of a second block.
  bool Compute(const std::vector<std::pair<const double*, const double*>>& covariance_blocks,
               Problem* problem);
  /// All pairs of these blocks.
  bool Compute(const std::vector<const double*>& parameter_blocks, Problem* problem);

  /// (size 1, size 2) row-major; zeros for constant blocks. False if it was not computed.
  bool GetCovarianceBlock(const double* parameter_block1, const double* parameter_block2,
                          double* covariance_block) const;
  bool GetCovarianceBlockInTangentSpace(const double* parameter_block1,
                                        const double* parameter_block2,
                                        double* covariance_block) const;
  bool GetCovarianceMatrix(const std::vector<const double*>& parameter_blocks,
                           double* covariance_matrix) const;
  bool GetCovarianceMatrixInTangentSpace(const std::vector<const double*>& parameter_blocks,
                                         double* covariance_matrix) const;

 private:
  std::unique_ptr<internal::CovarianceImpl> impl_;
};

}  // namespace ceres
