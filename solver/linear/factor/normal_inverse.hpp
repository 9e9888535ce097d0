// Blocks of the inverse of a normal matrix JᵀJ, for covariances, also where J lacks rank.
#pragma once

#include "elimination.hpp"

#include <Eigen/Core>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd {

/// Some adjacent coordinates.
struct CoordinateRange {
  std::uint32_t first = 0, count = 0;
};

/// Blocks of (JᵀJ)⁻¹ from the Cholesky factor of JᵀJ with columns of J scaled to length 1.
///
/// Entries in the factor's pattern, among them all pairs that share a residual, are the selected
/// inverse's (runtime/cpu/factor/selected_inverse.hpp). A pair of ranges with an entry outside of
/// it takes two triangular solves for each coordinate of the second range. Results do not depend on
/// the number of threads, nor on what was asked for before. Any thread may ask.
class NormalInverse {
 public:
  /// Returns null where the factorisation fails, or a pivot is so small that entries of the inverse
  /// could have fewer than about eight digits: then J itself should be factorised.
  ///
  ///   lower    lower triangle of JᵀJ with all diagonal entries
  ///   threads  0 = all
  static std::unique_ptr<NormalInverse> make(const SparseMatrix& lower, int threads);
  ~NormalInverse();

  struct Pair {
    CoordinateRange a, b;
  };
  /// Computes entries (a, b) of each pair, all at one time. Ranges are equal or disjoint.
  std::vector<Eigen::MatrixXd> blocks(std::span<const Pair> pairs);
  Eigen::MatrixXd block(const CoordinateRange& a, const CoordinateRange& b) {
    return std::move(blocks(std::array{Pair{a, b}}).front());
  }

 private:
  struct Impl;
  explicit NormalInverse(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Blocks of (JᵀJ)⁻¹, of the coordinates that J determines: those that are the same in all
/// solutions of min ‖J u − b‖. Others have no covariance; they make the entries of no other
/// coordinate wrong.
class DeterminedInverse {
 public:
  /// By the factor of JᵀJ, and of J where that has too few digits: only in the components (of
  /// coordinates that meet in residuals) that are nearly singular.
  ///
  ///   lower      lower triangle of JᵀJ with all diagonal entries
  ///   jacobian   returns J, if it is needed
  ///   threshold  shorter columns of J's triangular factor count as dependent; negative: chosen
  ///   threads    0 = all
  static DeterminedInverse sparse(const SparseMatrix& lower,
                                  const std::function<SparseMatrix()>& jacobian, double threshold,
                                  int threads);
  /// By the singular values of J.
  ///
  ///   least_ratio      least ratio of an eigenvalue of JᵀJ to the largest
  ///   null_space_rank  < 0: the pseudo-inverse without smaller eigenvalues, which counts every
  ///                    coordinate as determined; k > 0: likewise without the k smallest ones, if
  ///                    the others are large enough
  static DeterminedInverse dense(const Eigen::MatrixXd& jacobian, double least_ratio,
                                 int null_space_rank);
  ~DeterminedInverse();
  DeterminedInverse(DeterminedInverse&&) noexcept;
  DeterminedInverse& operator=(DeterminedInverse&&) noexcept;

  std::size_t rank() const;  ///< of J
  /// The first coordinate of the range that is not determined.
  std::optional<std::uint32_t> undetermined(const CoordinateRange& range) const;
  /// Entries (a, b) of each pair; meaningless for coordinates that are not determined. Ranges are
  /// equal or disjoint.
  std::vector<Eigen::MatrixXd> blocks(std::span<const NormalInverse::Pair> pairs) const;

 private:
  struct Impl;
  explicit DeterminedInverse(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
