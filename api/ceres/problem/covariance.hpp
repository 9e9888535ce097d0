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

/// Blocks of (JᵀJ)⁻¹; J is the robustified Jacobian in tangent space at the user's values.
class Covariance {
 public:
  struct Options {
    SparseLinearAlgebraLibraryType sparse_linear_algebra_library_type =
        EIGEN_SPARSE;  ///< no effect
    /// SPARSE_QR needs a Jacobian of full rank; DENSE_SVD can omit a null space.
    CovarianceAlgorithmType algorithm_type = SPARSE_QR;
    /// DENSE_SVD: minimum ratio of the extreme eigenvalues of JᵀJ.
    double min_reciprocal_condition_number = 1e-14;
    /// DENSE_SVD: number of smallest singular values to omit; -1: all below the ratio.
    int null_space_rank = 0;
    /// SPARSE_QR: shorter columns count as dependent; negative: chosen by Eigen.
    double column_pivot_threshold = -1;
    int num_threads = 1;  ///< no effect
    bool apply_loss_function = true;
  };

  explicit Covariance(const Options& options);
  ~Covariance();

  /// Computes the listed blocks; each is then available in both orders of the pair. Returns false
  /// if the Jacobian cannot be evaluated or is rank-deficient. Throws Error{InvalidArgument} for a
  /// block that is not in the problem or a pair that is listed twice.
  ///
  /// Cost: a factorisation of J, and two triangular solves for each column of a second block.
  bool Compute(const std::vector<std::pair<const double*, const double*>>& covariance_blocks,
               Problem* problem);
  /// Computes all pairs of these blocks.
  bool Compute(const std::vector<const double*>& parameter_blocks, Problem* problem);

  /// (size 1, size 2) row-major; zeros for constant blocks. Returns false if it was not computed.
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
