// Blocks of the inverse of a normal matrix JᵀJ, for covariances.
#pragma once

#include "elimination.hpp"

#include <Eigen/Core>

#include <array>
#include <cstdint>
#include <memory>
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

}  // namespace topograd
