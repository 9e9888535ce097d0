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
    /// SPARSE_QR: by a factor of JᵀJ if it has the digits; DENSE_SVD: also the pseudo-inverse.
    CovarianceAlgorithmType algorithm_type = SPARSE_QR;
    /// DENSE_SVD: minimum ratio of the extreme eigenvalues of JᵀJ.
    double min_reciprocal_condition_number = 1e-14;
    /// DENSE_SVD: number of smallest singular values to omit; -1: all below the ratio.
    int null_space_rank = 0;
    /// SPARSE_QR: shorter columns count as dependent; negative: chosen by Eigen.
    double column_pivot_threshold = -1;
    int num_threads = 1;
    bool apply_loss_function = true;
  };

  explicit Covariance(const Options& options);
  ~Covariance();

  /// Computes the listed blocks; each is then available in both orders of the pair. Returns false
  /// if the Jacobian cannot be evaluated, or if it does not determine one of the listed blocks; the
  /// others are then available. Blocks that are not listed make no difference. Throws
  /// Error{InvalidArgument} for a block that is not in the problem or a pair that is listed twice.
  ///
  /// Cost: a factorisation, and entries of the inverse where the factor has any, else solves.
  bool Compute(const std::vector<std::pair<const double*, const double*>>& covariance_blocks,
               Problem* problem);
  /// Computes all pairs of these blocks.
  bool Compute(const std::vector<const double*>& parameter_blocks, Problem* problem);

  /// An addition to Ceres' interface: the listed blocks that the Jacobian does not determine.
  std::vector<const double*> UndeterminedBlocks() const;

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
