// Preconditioned conjugate gradients on the host.
#pragma once

#include "../../linear/gain_test.hpp"
#include "../terms/sum_ranges.hpp"
#include "../tiles/column.hpp"
#include "../tiles/pool.hpp"
#include "operators.hpp"

#include <cstddef>

namespace topograd::runtime::cpu {

/// Vectors of one solve, kept between solves.
template <class T>
struct CgVectors {
  Column<T> residual, preconditioned, direction, product;

  void resize(std::size_t n) {
    for (Column<T>* v : {&residual, &preconditioned, &direction, &product}) {
      if (v->size() != n) *v = Column<T>(n);
    }
  }
};

/// Order of summation of r·r and r·z within a range.
enum class SumOrder {
  ascending,  ///< one after the other, in double
  packets     ///< several partial sums at once, in the vectors' precision, as in Eigen
};

/// The reaction to a direction p with p·A p < 0.
enum class NegativeCurvature {
  stops,  ///< the step before it is the answer
  /// One more step, as long as for the same positive curvature: it leads down, away from a saddle.
  is_followed
};

struct CgOptions {
  double tolerance = 0;    ///< on ‖residual‖ / ‖right side‖
  bool in_energy = false;  ///< that norm is √(r·M⁻¹r) instead of √(r·r)
  int max_iterations = 0;
  double eta = 0;  ///< of GainTest
  NegativeCurvature negative = NegativeCurvature::stops;
  SumOrder order = SumOrder::ascending;
  /// Completes sums over the preconditioner's ranges where other parts of the system have ranges;
  /// null: there are none.
  const SumRanges* sums = nullptr;
};

enum class CgEnd {
  converged,  ///< reached the tolerance
  gained,     ///< stopped by GainTest
  limit,      ///< reached max_iterations
  breakdown   ///< A is not positive along a direction, or a number is not finite
};

struct CgReport {
  int iterations = 0;  ///< whole ones
  int products = 0;    ///< with A
  CgEnd end = CgEnd::limit;
};

/// Solves A x = b from x = 0. Results do not depend on the number of threads.
///
///   vectors  `residual` is b; it is b − A x afterwards
///   x        as many scalars; out
/// Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1.
template <class T>
CgReport conjugate_gradients(Pool& pool, LinearOperator<T>& matrix,
                             HostPreconditioner<T>& preconditioner, CgVectors<T>& vectors, T* x,
                             const CgOptions& options);

}  // namespace topograd::runtime::cpu
