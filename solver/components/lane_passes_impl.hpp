// Bodies of the passes over lanes, compiled once per instruction set by the including file.
//
// Everything here has internal linkage and no template of the standard library is instantiated:
// otherwise the linker might keep code for a newer instruction set and use it everywhere. T is a
// register of lanes, or double for one lane; nothing is summed over lanes, so both have the same
// bits.
#pragma once

#include "lane_passes.hpp"

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace topograd {
namespace {

using Index = std::uint32_t;
using Size = std::size_t;

#if defined(__AVX512F__)
constexpr Size kWidth = 8;
#elif defined(__AVX2__)
constexpr Size kWidth = 4;
#else
constexpr Size kWidth = 2;
#endif

typedef double Register __attribute__((vector_size(kWidth * sizeof(double)), may_alias));
typedef std::int64_t Mask __attribute__((vector_size(kWidth * sizeof(double)), may_alias));

constexpr double kInfinity = __builtin_inf();

#define TG_INLINE [[gnu::always_inline]] inline

TG_INLINE double select(bool mask, double a, double b) { return mask ? a : b; }
TG_INLINE Register select(Mask mask, Register a, Register b) { return mask ? a : b; }

TG_INLINE double root(double v) { return __builtin_sqrt(v); }
TG_INLINE Register root(Register v) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_pd(0xff, v);  // for GCC, others have a register without a value
#elif defined(__AVX2__)
  return _mm256_sqrt_pd(v);
#elif defined(__x86_64__)
  return _mm_sqrt_pd(v);
#elif defined(__aarch64__)
  return vsqrtq_f64(v);
#else
  for (Size i = 0; i < kWidth; ++i) v[i] = __builtin_sqrt(v[i]);
  return v;
#endif
}

template <class T>
TG_INLINE T absolute(T v) {
  return select(v < 0.0, -v, v);
}
/// The larger one; a NaN is kept.
template <class T>
TG_INLINE T largest(T max, T v) {
  return select((max != max) | (v <= max), max, v);
}
template <class T>
TG_INLINE T& at(double* column, Size lane) {
  return *reinterpret_cast<T*>(column + lane);
}
template <class T>
TG_INLINE const T& at(const double* column, Size lane) {
  return *reinterpret_cast<const T*>(column + lane);
}
template <class T>
TG_INLINE T number(double v) {
  return T{} + v;
}

TG_INLINE Size packed(Size n, Size i, Size j) { return i * n - i * (i + 1) / 2 + j; }
TG_INLINE Size triangle(Size n) { return n * (n + 1) / 2; }
/// Row i of a lower triangle.
TG_INLINE Size row(Size i) { return i * (i + 1) / 2; }

TG_INLINE bool any(double flag) { return flag != 0; }
TG_INLINE bool any(Register flags) {
  double sum = 0;
  for (Size i = 0; i < kWidth; ++i) sum += flags[i];
  return sum != 0;
}

/// A bound holds the scalar: the gradient pushes against it.
template <class T>
TG_INLINE auto is_held(const LaneNumbers& c, Size scalar, const T& x, const T& g, Size lane) {
  const T& lower = at<T>(c.lower + scalar * c.stride, lane);
  const T& upper = at<T>(c.upper + scalar * c.stride, lane);
  return ((x <= lower) & (g > 0.0)) | ((x >= upper) & (g < 0.0));
}

template <class T>
TG_INLINE void report_at(const LaneShape& shape, const LaneNumbers& c, Size lane) {
  const Size stride = c.stride;
  const T zero{};
  T max = zero, squares = zero, xs = zero;
  T scaled_max = zero, scaled_squares = zero, scaled_steps = zero;
  T scaled_xs = c.squares_on_manifolds == nullptr ? zero : at<T>(c.squares_on_manifolds, lane);
  for (Index i = 0; i < shape.free_count; ++i) {
    const T x = at<T>(c.x + shape.free[i] * stride, lane);
    xs += x * x;
  }
  const T length = at<T>(c.length, lane);
  for (Index k = 0; k < shape.n; ++k) {
    const Index scalar = shape.coordinates[k].scalar;
    const T gradient = at<T>(c.gradient + k * stride, lane);
    const T h = at<T>(c.matrix + packed(shape.n, k, k) * stride, lane);
    T g = gradient, scaled = gradient / root(h);
    scaled = select(h == kInfinity, h, scaled);
    if (scalar != LaneShape::kNone) {
      const T x = at<T>(c.x + scalar * stride, lane);
      if (c.lower != nullptr) {
        // x less the nearest point of the box to x − g. The difference x − (x − g) would lose the
        // digits of a gradient that is small beside x.
        const T below = x - at<T>(c.lower + scalar * stride, lane);
        g = select(below < g, below, g);
        const T above = x - at<T>(c.upper + scalar * stride, lane);
        g = select(g < above, above, g);
        scaled = select(is_held(c, scalar, x, gradient, lane), zero, scaled);
      }
      scaled_xs += h * x * x;
    }
    max = largest(max, absolute(g));
    squares += g * g;
    const auto counts = h != 0.0;
    scaled_max = select(counts, largest(scaled_max, absolute(scaled)), scaled_max);
    scaled_squares = select(counts, scaled_squares + scaled * scaled, scaled_squares);
    const T step = length * at<T>(c.delta + k * stride, lane);
    scaled_steps = select(counts, scaled_steps + h * step * step, scaled_steps);
  }
  T moved = zero;
  for (Index s = 0; s < shape.scalars; ++s) {
    const T by = at<T>(c.x + s * stride, lane) - at<T>(c.here_x + s * stride, lane);
    moved += by * by;
  }
  at<T>(c.cost, lane) = at<T>(c.doubled_cost, lane) / 2.0;
  at<T>(c.gradient_max, lane) = max;
  at<T>(c.gradient_norm, lane) = root(squares);
  at<T>(c.x_norm, lane) = root(xs);
  at<T>(c.scaled_gradient_max, lane) = scaled_max;
  at<T>(c.scaled_gradient_norm, lane) = root(scaled_squares);
  at<T>(c.scaled_x_norm, lane) = root(scaled_xs);
  at<T>(c.scaled_step_norm, lane) = root(scaled_steps);
  at<T>(c.step_norm, lane) = root(moved);
}

void report(const LaneShape& shape, const LaneNumbers& c, Size first, Size last) {
  for (Size lane = first; lane < last; lane += kWidth) report_at<Register>(shape, c, lane);
}
void report_one(const LaneShape& shape, const LaneNumbers& c, Size lane) {
  report_at<double>(shape, c, lane);
}

/// Flags lanes in which a block of JᵀJ is nearly singular: a pivot is a small part of its diagonal.
template <class T>
TG_INLINE T find_undetermined(const LaneShape& shape, const LaneNumbers& c, T* a, Size lane) {
  constexpr double kFarFromSingular = 1e-8;
  T out{};
  for (Index b = 0; b < shape.tested_count; ++b) {
    const LaneShape::Block block = shape.tested[b];
    for (Size j = 0; j < block.width; ++j) {
      const Size diagonal = packed(shape.n, block.first + j, block.first + j);
      const T whole = at<T>(c.matrix + diagonal * c.stride, lane);
      T pivot = whole;
      for (Size k = 0; k < j; ++k) pivot -= a[row(j) + k] * a[row(j) + k] * a[row(k) + k];
      out = select(pivot > kFarFromSingular * whole, out, number<T>(1));
      a[row(j) + j] = pivot;
      const T reciprocal = 1.0 / pivot;
      for (Size i = j + 1; i < block.width; ++i) {
        T sum = at<T>(c.matrix + (diagonal + i - j) * c.stride, lane);
        for (Size k = 0; k < j; ++k) sum -= a[row(i) + k] * a[row(j) + k] * a[row(k) + k];
        a[row(i) + j] = sum * reciprocal;
      }
    }
  }
  return out;
}

template <class T>
TG_INLINE void take(double* to, const double* from, Size columns, Size stride, Size lane,
                    const T& flag) {
  for (Size k = 0; k < columns; ++k, to += stride, from += stride)
    at<T>(to, lane) = select(flag != 0.0, at<T>(from, lane), at<T>(to, lane));
}

template <class T>
TG_INLINE void arrive_at(const LaneShape& shape, const LaneNumbers& c, T* scratch, Size lane) {
  const T flag = at<T>(c.arrives, lane);
  if (!any(flag)) return;
  const Size stride = c.stride;
  take<T>(c.here_x, c.x, shape.scalars, stride, lane, flag);
  take<T>(c.here_gradient, c.gradient, shape.n, stride, lane, flag);
  take<T>(c.here_matrix, c.matrix, triangle(shape.n), stride, lane, flag);
  const T unit = number<T>(shape.scale_free ? 0.0 : 1.0), zero{};
  const T scaled = at<T>(c.scaled, lane);
  for (Index k = 0; k < shape.n; ++k) {
    const T h = at<T>(c.matrix + packed(shape.n, k, k) * stride, lane);
    T here = 1.0 / (unit + root(h));
    here = select((here > 0.0) & (here * here < kInfinity), here, zero);
    T& scale = at<T>(c.scale + k * stride, lane);
    // With scale_free, columns that were 0 get their scale later.
    const T before = shape.scale_free ? select(scale > 0.0, scale, here) : scale;
    scale = select(flag != 0.0, select(scaled != 0.0, before, here), scale);
    T& damping = at<T>(c.damping + k * stride, lane);
    damping = select(flag != 0.0, h, damping);
  }
  at<T>(c.scaled, lane) = select(flag != 0.0, number<T>(1), scaled);
  at<T>(c.undetermined, lane) = find_undetermined<T>(shape, c, scratch, lane);
}

void arrive(const LaneShape& shape, const LaneNumbers& c, double* scratch, Size first, Size last) {
  for (Size lane = first; lane < last; lane += kWidth)
    arrive_at<Register>(shape, c, reinterpret_cast<Register*>(scratch), lane);
}

/// Cholesky's factor by rows, with reciprocals on its diagonal, over the lower triangle of a
/// matrix. Pivots at or below a share of the diagonal are left out.
///
///   limits    (n) that share for each pivot which is left out, else 0
///   vanished  a pivot was left out
///   bad       a pivot is not positive
template <class T>
TG_INLINE void factor(T* a, Size n, const T& vanishing, T* limits, T& vanished, T& bad) {
  const T zero{}, one = number<T>(1);
  for (Size j = 0; j < n; ++j) {
    T* const of_j = a + row(j);
    T pivot = of_j[j];
    const T limit = vanishing * absolute(pivot);
    for (Size k = 0; k < j; ++k) pivot -= of_j[k] * of_j[k];
    const auto vanishes = (vanishing > 0.0) & (absolute(pivot) <= limit);
    const auto good = (pivot > 0.0) & (pivot < kInfinity);
    bad = select(vanishes | good, bad, one);
    vanished = select(vanishes & (limit > 0.0), one, vanished);
    limits[j] = select(vanishes, limit, zero);
    const T reciprocal = select(vanishes, zero, 1.0 / root(pivot));
    of_j[j] = reciprocal;
    for (Size i = j + 1; i < n; ++i) {
      T* const of_i = a + row(i);
      T sum = of_i[j];
      for (Size k = 0; k < j; ++k) sum -= of_i[k] * of_j[k];
      of_i[j] = sum * reciprocal;
    }
  }
}

template <class T>
TG_INLINE void solve_at(const LaneShape& shape, const LaneNumbers& c, T* scratch, Size lane) {
  const Size n = shape.n, stride = c.stride;
  T *const a = scratch, *const y = a + triangle(n), *const limits = y + n, *const s = limits + n;
  const T zero{}, one = number<T>(1);
  const T flag = at<T>(c.solves, lane), lambda = at<T>(c.lambda, lane);
  for (Size k = 0; k < n; ++k) {
    s[k] = one;
    if (shape.jacobi_scaling) {
      const T scale = at<T>(c.scale + k * stride, lane);
      s[k] = select(scale > 0.0, scale, one);
    }
    const Index scalar = shape.coordinates[k].scalar;
    if (c.lower == nullptr || scalar == LaneShape::kNone) continue;
    const T held = select(is_held(c, scalar, at<T>(c.here_x + scalar * stride, lane),
                                  at<T>(c.here_gradient + k * stride, lane), lane),
                          one, zero);
    s[k] = select(held != 0.0, zero, s[k]);
  }
  for (Size j = 0; j < n; ++j) {
    const double* const column = c.here_matrix + packed(n, j, j) * stride;
    for (Size i = j; i < n; ++i)
      a[row(i) + j] = s[i] * s[j] * at<T>(column + (i - j) * stride, lane);
    T damping = s[j] * s[j] * at<T>(c.damping + j * stride, lane);
    damping = select(damping < shape.least_diagonal, number<T>(shape.least_diagonal), damping);
    damping = select(damping > shape.most_diagonal, number<T>(shape.most_diagonal), damping);
    a[row(j) + j] += lambda * damping;
    y[j] = -s[j] * at<T>(c.here_gradient + j * stride, lane);
  }
  const T vanishing =
      select(lambda > 0.0, number<T>(shape.vanishing_damped), number<T>(shape.vanishing_undamped));
  T vanished = zero, bad = zero, hidden = zero;
  factor<T>(a, n, vanishing, limits, vanished, bad);
  for (Size j = 0; j < n; ++j) {
    const T* const of_j = a + row(j);
    for (Size k = 0; k < j; ++k) y[j] -= of_j[k] * y[k];
    hidden = select(limits[j] > 0.0, hidden + y[j] * y[j] / (2.0 * limits[j]), hidden);
    y[j] *= of_j[j];
  }
  for (Size j = n; j-- > 0;) {
    for (Size i = j + 1; i < n; ++i) y[j] -= a[row(i) + j] * y[i];
    y[j] *= a[row(j) + j];
  }
  T slope = zero, square = zero, sum = zero;
  for (Size k = 0; k < n; ++k) {
    y[k] *= s[k];
    slope += at<T>(c.here_gradient + k * stride, lane) * y[k];
    sum += absolute(y[k]);
  }
  for (Size i = 0; i < n; ++i) {
    const double* const column = c.here_matrix + packed(n, i, i) * stride;
    T product = at<T>(column, lane) * y[i];
    for (Size j = i + 1; j < n; ++j) product += 2.0 * at<T>(column + (j - i) * stride, lane) * y[j];
    square += y[i] * product;
  }
  for (Size k = 0; k < n; ++k) {
    T& delta = at<T>(c.delta + k * stride, lane);
    delta = select(flag != 0.0, y[k], delta);
  }
  at<T>(c.solved, lane) = select((bad == 0.0) & (sum < kInfinity), one, zero);
  at<T>(c.vanished, lane) = vanished;
  at<T>(c.decrease, lane) = -slope - square / 2.0;
  at<T>(c.slope, lane) = slope;
  at<T>(c.hidden, lane) = hidden;
}

void solve(const LaneShape& shape, const LaneNumbers& c, double* scratch, Size first, Size last) {
  for (Size begin = first; begin < last; begin += kWidth) {
    Size count = 0, one = begin;
    for (Size lane = begin; lane < begin + kWidth && lane < last; ++lane) {
      if (c.solves[lane] == 0) continue;
      ++count;
      one = lane;
    }
    if (count == 0) continue;
    if (count > 1 && shape.n <= kMostByRegisters) {
      solve_at<Register>(shape, c, reinterpret_cast<Register*>(scratch), begin);
      continue;
    }
    for (Size lane = begin; lane <= one; ++lane)
      if (c.solves[lane] != 0) solve_at<double>(shape, c, scratch, lane);
  }
}

void move(const LaneShape& shape, const LaneNumbers& c, Size first, Size last) {
  const Size stride = c.stride;
  for (Size lane = first; lane < last; lane += kWidth) {
    const Register flag = at<Register>(c.moves, lane);
    if (!any(flag)) continue;
    const Register length = at<Register>(c.length, lane);
    take<Register>(c.x, c.here_x, shape.scalars, stride, lane, flag);
    for (Index k = 0; k < shape.n; ++k) {
      const Index scalar = shape.coordinates[k].scalar;
      if (scalar == LaneShape::kNone) continue;
      Register& x = at<Register>(c.x + scalar * stride, lane);
      Register to = x + length * at<Register>(c.delta + k * stride, lane);
      if (c.lower != nullptr) {
        const Register lower = at<Register>(c.lower + scalar * stride, lane);
        const Register upper = at<Register>(c.upper + scalar * stride, lane);
        to = select(to < lower, lower, to);
        to = select(upper < to, upper, to);
      }
      x = select(flag != 0.0, to, x);
    }
  }
}

template <class T>
TG_INLINE T gather(const double* column, const std::uint32_t* lanes, Size count);
template <>
TG_INLINE double gather<double>(const double* column, const std::uint32_t* lanes, Size) {
  return column[lanes[0]];
}
template <>
TG_INLINE Register gather<Register>(const double* column, const std::uint32_t* lanes, Size count) {
  Register out{};
  for (Size i = 0; i < kWidth; ++i) out[i] = column[lanes[i < count ? i : 0]];
  return out;
}
TG_INLINE double part(double v, Size) { return v; }
TG_INLINE double part(const Register& v, Size i) { return v[i]; }

/// (JᵀJ)⁻¹ = S L⁻ᵀ L⁻¹ S, with the factor of S JᵀJ S, whose diagonal is 1.
template <class T>
TG_INLINE void covariances_at(const LaneShape& shape, const LaneNumbers& c, T* scratch,
                              const std::uint32_t* lanes, Size count, double* out,
                              double* accurate) {
  constexpr double kLeastPivot = 1e-8;
  const Size n = shape.n, stride = c.stride;
  T *const a = scratch, *const y = a + triangle(n), *const s = y + n, *const limits = s + n;
  const T zero{}, one = number<T>(1);
  T bad = zero, vanished = zero;
  for (Size i = 0; i < n; ++i) {
    const T h = gather<T>(c.here_matrix + packed(n, i, i) * stride, lanes, count);
    s[i] = 1.0 / root(h);
    for (Size j = 0; j <= i; ++j)
      a[row(i) + j] =
          gather<T>(c.here_matrix + packed(n, j, i) * stride, lanes, count) * s[i] * s[j];
  }
  factor<T>(a, n, number<T>(kLeastPivot), limits, vanished, bad);
  for (Size i = 0; i < n; ++i) bad = select(s[i] < kInfinity, bad, one);
  for (Size column = 0; column < n; ++column) {
    for (Size i = column; i < n; ++i) {
      y[i] = i == column ? one : zero;
      for (Size k = column; k < i; ++k) y[i] -= a[row(i) + k] * y[k];
      y[i] *= a[row(i) + i];
    }
    for (Size i = n; i-- > column;) {
      for (Size k = i + 1; k < n; ++k) y[i] -= a[row(k) + i] * y[k];
      y[i] *= a[row(i) + i];
      const T entry = s[i] * y[i] * s[column];
      for (Size l = 0; l < count; ++l)
        out[(l * n + i) * n + column] = out[(l * n + column) * n + i] = part(entry, l);
    }
  }
  const T good = select((bad == 0.0) & (vanished == 0.0), one, zero);
  for (Size l = 0; l < count; ++l) accurate[l] = part(good, l);
}

void covariances(const LaneShape& shape, const LaneNumbers& c, double* scratch,
                 const std::uint32_t* lanes, Size count, double* out, double* accurate) {
  const bool by_registers = shape.n <= kMostByRegisters;
  const Size most = by_registers ? kWidth : 1;
  for (Size first = 0; first < count; first += most) {
    const Size rest = count - first < most ? count - first : most;
    double* const to = out + first * shape.n * shape.n;
    if (by_registers && rest > 1)
      covariances_at<Register>(shape, c, reinterpret_cast<Register*>(scratch), lanes + first, rest,
                               to, accurate + first);
    else
      covariances_at<double>(shape, c, scratch, lanes + first, 1, to, accurate + first);
  }
}

constexpr LanePasses kPasses = {report, report_one, arrive, solve, move, covariances};

}  // namespace
}  // namespace topograd
