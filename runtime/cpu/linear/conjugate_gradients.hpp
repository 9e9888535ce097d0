// Preconditioned conjugate gradients on the vectors of an engine.
#pragma once

#include "../tiles/column.hpp"
#include "../tiles/pool.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace topograd::runtime::cpu {

/// Scalars of one range of work.
inline constexpr std::size_t kScalarsPerRange = 16384;

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

/// Whether conjugate gradients have gained what is to be gained of the quadratic model
/// Q(x) = xᵀA x − 2 bᵀx: i (Qᵢ − Qᵢ₋₁) / Qᵢ < η after iteration i.
///
/// Source: Nash, Sofer, Assessing a search direction within a truncated-Newton method, Operations
/// Research Letters 9 (1990); Ceres' η.
class GainTest {
 public:
  ///   eta  0: never
  explicit GainTest(double eta) : eta_(eta) {}
  /// To be called after each iteration.
  ///
  ///   gain  Qᵢ₋₁ − Qᵢ = α rᵀz
  bool enough(double gain) {
    sum_ += gain;
    return ++iterations_ * gain < eta_ * sum_;
  }

 private:
  double eta_, sum_ = 0;
  int iterations_ = 0;
};

struct CgOptions {
  double tolerance = 0;    ///< on the norm of the residual over that of g
  bool in_energy = false;  ///< that norm is √(r·M⁻¹r) instead of √(r·r)
  int max_iterations = 0;
  double eta = 0;  ///< of GainTest
};

/// Solves A δ = −g from δ = 0; returns the iterations taken.
///
/// Stops at the tolerance, by GainTest, at max_iterations, or when A is not positive along a
/// direction. Sums are taken in double in fixed order.
///
///   multiply(p, q)           q = A p; returns p·q
///   precondition(f)          f(begin, end, apply) for ranges of scalars that hold whole blocks,
///   where
///                            apply(r, z) computes z = M⁻¹ r there; returns the sums of what f
///                            returns
///   correct(r, z)            adds to z what else there is of M⁻¹ r; returns r · what it added
/// Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1.
template <class T, class Multiply, class Precondition, class Correct>
int conjugate_gradients(Pool& pool, CgVectors<T>& v, const Column<T>& gradient, Column<T>& delta,
                        const CgOptions& options, const Multiply& multiply,
                        const Precondition& precondition, const Correct& correct) {
  const std::size_t n = gradient.size();
  v.resize(n);
  T *r = v.residual.data(), *z = v.preconditioned.data(), *p = v.direction.data();
  const T* q = v.product.data();
  using Sums = std::array<double, 2>;  // r·r and r·z

  const auto sums = [&](std::size_t begin, std::size_t end) {
    Sums s = {0, 0};
    for (std::size_t i = begin; i < end; ++i) {
      s[0] += double{r[i]} * double{r[i]};
      s[1] += double{r[i]} * double{z[i]};
    }
    return s;
  };
  Sums now = precondition([&](std::size_t begin, std::size_t end, const auto& apply) {
    for (std::size_t i = begin; i < end; ++i) {
      r[i] = -gradient[i];
      delta[i] = 0;
    }
    apply(r, z);
    return sums(begin, end);
  });
  now[1] += correct(r, z);
  pool.for_ranges(n, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    std::copy(z + begin, z + end, p + begin);
  });
  const auto norm = [&](const Sums& s) { return std::sqrt(options.in_energy ? s[1] : s[0]); };
  const double enough = options.tolerance * norm(now);
  GainTest gains(options.eta);
  int iteration = 0;
  while (iteration < options.max_iterations && now[0] > 0 && norm(now) > enough) {
    const double curvature = multiply(p, v.product.data());
    if (!(curvature > 0) || !std::isfinite(curvature)) break;
    const T alpha = static_cast<T>(now[1] / curvature);
    Sums next = precondition([&](std::size_t begin, std::size_t end, const auto& apply) {
      for (std::size_t i = begin; i < end; ++i) {
        delta[i] += alpha * p[i];
        r[i] -= alpha * q[i];
      }
      apply(r, z);
      return sums(begin, end);
    });
    next[1] += correct(r, z);
    const T beta = static_cast<T>(next[1] / now[1]);
    pool.for_ranges(n, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) p[i] = z[i] + beta * p[i];
    });
    ++iteration;
    if (gains.enough(now[1] * (now[1] / curvature))) break;
    now = next;
  }
  return iteration;
}

}  // namespace topograd::runtime::cpu
