// Preconditioned conjugate gradients on the host: operators, the solve, and replacements of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "../../linear/gain_test.hpp"
#include "../terms/term_costs.hpp"
#include "../tiles/column.hpp"
#include "../tiles/pool.hpp"

namespace topograd::runtime::cpu {

/// A symmetric matrix A, by its products.
template <class T>
class LinearOperator {
 public:
  virtual ~LinearOperator() = default;
  /// q = A p. Returns p · q, summed in double in an order that does not depend on threads.
  virtual double multiply(const T* p, T* q) = 0;
};

/// A matrix whose product is the callable double f(const T* p, T* q).
template <class T, class F>
class ProductBy final : public LinearOperator<T> {
 public:
  explicit ProductBy(F f) : f_(std::move(f)) {}
  double multiply(const T* p, T* q) override { return f_(p, q); }

 private:
  F f_;
};
template <class T, class F>
ProductBy<T, F> product_by(F f) {
  return ProductBy<T, F>(std::move(f));
}

/// M⁻¹ for a symmetric positive definite M close to A, in two parts: one acts on each range of
/// scalars separately, while it is in the caches; the other couples the ranges.
template <class T>
class HostPreconditioner {
 public:
  /// Scalars.
  struct Range {
    std::size_t begin = 0, end = 0;
  };

  virtual ~HostPreconditioner() = default;
  /// Number of ranges, which cover all scalars in ascending order.
  virtual std::size_t ranges() const = 0;
  virtual Range range(std::size_t k) const = 0;
  /// z = the first part of M⁻¹ r on range k; ranges may be applied concurrently.
  virtual void apply(std::size_t k, const T* r, T* z) const = 0;
  /// Adds the second part to z. Returns r · the added part, summed in double.
  virtual double correct(const T* /*r*/, T* /*z*/) { return 0; }
};

/// M = 1.
template <class T>
class NoPreconditioner final : public HostPreconditioner<T> {
 public:
  using typename HostPreconditioner<T>::Range;

  ///   per_range  scalars of one range, > 0
  NoPreconditioner(std::size_t scalars, std::size_t per_range)
      : scalars_(scalars), per_range_(per_range) {}
  std::size_t ranges() const override { return (scalars_ + per_range_ - 1) / per_range_; }
  Range range(std::size_t k) const override {
    return {k * per_range_, std::min(scalars_, (k + 1) * per_range_)};
  }
  void apply(std::size_t k, const T* r, T* z) const override {
    std::copy(r + range(k).begin, r + range(k).end, z + range(k).begin);
  }

 private:
  std::size_t scalars_, per_range_;
};

/// A diagonal M, as one range.
template <class T>
class DiagonalPreconditioner final : public HostPreconditioner<T> {
 public:
  using typename HostPreconditioner<T>::Range;

  ///   inverse  the diagonal of M⁻¹; outlives this
  explicit DiagonalPreconditioner(std::span<const T> inverse) : inverse_(inverse) {}
  std::size_t ranges() const override { return 1; }
  Range range(std::size_t) const override { return {0, inverse_.size()}; }
  void apply(std::size_t, const T* r, T* z) const override {
    for (std::size_t k = 0; k < inverse_.size(); ++k) z[k] = inverse_[k] * r[k];
  }

 private:
  std::span<const T> inverse_;
};

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

/// r·r and r·z.
struct ResidualProducts {
  double rr = 0, rz = 0;
};

/// The vectors x, r, z, p and q of a solve, wherever they are.
template <class T>
class CgSweeps {
 public:
  virtual ~CgSweeps() = default;
  /// x = 0, and p = z = M⁻¹ r.
  virtual ResidualProducts start() = 0;
  /// q = A p. Returns p·q.
  virtual double multiply() = 0;
  /// x += alpha p, r −= alpha q, z = M⁻¹ r.
  virtual ResidualProducts follow(T alpha) = 0;
  /// x += alpha p, at the end of a solve.
  virtual void move(T alpha) = 0;
  /// p = z + beta p.
  virtual void turn(T beta) = 0;
};

/// Solves A x = b from x = 0 by sweeps over the vectors, of which r is b.
/// Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1.
template <class T>
CgReport conjugate_gradients(CgSweeps<T>& sweeps, const CgOptions& options);

/// The same with vectors of the host. Results do not depend on the number of threads.
///
///   vectors  `residual` is b; it is b − A x afterwards
///   x        as many scalars; out
template <class T>
CgReport conjugate_gradients(Pool& pool, LinearOperator<T>& matrix,
                             HostPreconditioner<T>& preconditioner, CgVectors<T>& vectors, T* x,
                             const CgOptions& options);

/// Solves the damped normal equations of a step.
class KrylovMethod {
 public:
  virtual ~KrylovMethod() = default;
  /// Solves A x = b from x = 0 on the scalars of the preconditioner's ranges; the others are
  /// ghosts, and keep their numbers.
  ///
  ///   options  its tolerance, norm and bound of iterations are meant
  virtual CgReport solve(LinearOperator<double>& matrix, HostPreconditioner<double>& preconditioner,
                         std::span<const double> b, std::span<double> x,
                         const CgOptions& options) = 0;
};

}  // namespace topograd::runtime::cpu
