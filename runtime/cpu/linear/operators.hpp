// Operators of conjugate gradients on the host: a matrix, and a preconditioner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

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

}  // namespace topograd::runtime::cpu
