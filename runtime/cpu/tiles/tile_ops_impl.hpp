// Bodies of the tile functions on vector registers, compiled once per instruction set.
//
// Everything here has internal linkage and no template of the standard library is instantiated:
// otherwise the linker might keep code for a newer instruction set and use it everywhere.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tile_ops.hpp"

#ifdef TG_PORTABLE_BITS
#include "../../../codegen/math/glsl_as_cpp.hpp"
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#include <sleef.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sleef.h>
#endif

#ifdef TG_PORTABLE_BITS
#pragma GCC diagnostic ignored "-Wunused-function"
#ifdef __clang__
// Some functions have branches, and become no vector code.
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
namespace glsl_as_cpp {
namespace {
#include <math_functions.inc>
}  // namespace
}  // namespace glsl_as_cpp
#endif

namespace topograd::runtime::cpu {
namespace {

template <class T>
struct Vector;

#if defined(__AVX512F__)

inline constexpr char kInstructionSet[] = "avx512";
#define TG_SLEEF_F64(name, ulp) Sleef_##name##d8_##ulp##avx512f
#define TG_SLEEF_F32(name, ulp) Sleef_##name##f16_##ulp##avx512f

template <>
struct Vector<double> {
  using Type = __m512d;
  static constexpr std::size_t kWidth = 8;
  static Type load(const double* p) { return _mm512_load_pd(p); }
  static void store(double* p, Type v) { _mm512_store_pd(p, v); }
  static void stream(double* p, Type v) { _mm512_stream_pd(p, v); }
};
template <>
struct Vector<float> {
  using Type = __m512;
  static constexpr std::size_t kWidth = 16;
  static Type load(const float* p) { return _mm512_load_ps(p); }
  static void store(float* p, Type v) { _mm512_store_ps(p, v); }
  static void stream(float* p, Type v) { _mm512_stream_ps(p, v); }
};

#elif defined(__AVX2__)

inline constexpr char kInstructionSet[] = "avx2";
#define TG_SLEEF_F64(name, ulp) Sleef_##name##d4_##ulp##avx2
#define TG_SLEEF_F32(name, ulp) Sleef_##name##f8_##ulp##avx2

template <>
struct Vector<double> {
  using Type = __m256d;
  static constexpr std::size_t kWidth = 4;
  static Type load(const double* p) { return _mm256_load_pd(p); }
  static void store(double* p, Type v) { _mm256_store_pd(p, v); }
  static void stream(double* p, Type v) { _mm256_stream_pd(p, v); }
};
template <>
struct Vector<float> {
  using Type = __m256;
  static constexpr std::size_t kWidth = 8;
  static Type load(const float* p) { return _mm256_load_ps(p); }
  static void store(float* p, Type v) { _mm256_store_ps(p, v); }
  static void stream(float* p, Type v) { _mm256_stream_ps(p, v); }
};

#elif defined(__x86_64__)

inline constexpr char kInstructionSet[] = "sse2";
#define TG_SLEEF_F64(name, ulp) Sleef_##name##d2_##ulp
#define TG_SLEEF_F32(name, ulp) Sleef_##name##f4_##ulp

template <>
struct Vector<double> {
  using Type = __m128d;
  static constexpr std::size_t kWidth = 2;
  static Type load(const double* p) { return _mm_load_pd(p); }
  static void store(double* p, Type v) { _mm_store_pd(p, v); }
  static void stream(double* p, Type v) { _mm_stream_pd(p, v); }
};
template <>
struct Vector<float> {
  using Type = __m128;
  static constexpr std::size_t kWidth = 4;
  static Type load(const float* p) { return _mm_load_ps(p); }
  static void store(float* p, Type v) { _mm_store_ps(p, v); }
  static void stream(float* p, Type v) { _mm_stream_ps(p, v); }
};

#elif defined(__aarch64__)

inline constexpr char kInstructionSet[] = "neon";
#define TG_SLEEF_F64(name, ulp) Sleef_##name##d2_##ulp
#define TG_SLEEF_F32(name, ulp) Sleef_##name##f4_##ulp

// C has no stores that bypass the caches here.
template <>
struct Vector<double> {
  using Type = float64x2_t;
  static constexpr std::size_t kWidth = 2;
  static Type load(const double* p) { return vld1q_f64(p); }
  static void store(double* p, Type v) { vst1q_f64(p, v); }
  static void stream(double* p, Type v) { vst1q_f64(p, v); }
};
template <>
struct Vector<float> {
  using Type = float32x4_t;
  static constexpr std::size_t kWidth = 4;
  static Type load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, Type v) { vst1q_f32(p, v); }
  static void stream(float* p, Type v) { vst1q_f32(p, v); }
};

#else

inline constexpr char kInstructionSet[] = "scalar";

template <class T>
struct Vector {
  using Type = T;
  static constexpr std::size_t kWidth = 1;
  static T load(const T* p) { return *p; }
  static void store(T* p, T v) { *p = v; }
  static void stream(T* p, T v) { *p = v; }
};

#endif

#if defined(TG_SLEEF_F64)
#define TG_VECTOR_FUNCTION1(name, ulp)                                \
  inline Vector<double>::Type vector_##name(Vector<double>::Type a) { \
    return TG_SLEEF_F64(name, ulp)(a);                                \
  }                                                                   \
  inline Vector<float>::Type vector_##name(Vector<float>::Type a) {   \
    return TG_SLEEF_F32(name, ulp)(a);                                \
  }
#define TG_VECTOR_FUNCTION2(name, ulp)                                                        \
  inline Vector<double>::Type vector_##name(Vector<double>::Type a, Vector<double>::Type b) { \
    return TG_SLEEF_F64(name, ulp)(a, b);                                                     \
  }                                                                                           \
  inline Vector<float>::Type vector_##name(Vector<float>::Type a, Vector<float>::Type b) {    \
    return TG_SLEEF_F32(name, ulp)(a, b);                                                     \
  }
#else
#define TG_VECTOR_FUNCTION1(name, ulp)                           \
  inline double vector_##name(double a) { return std::name(a); } \
  inline float vector_##name(float a) { return std::name(a); }
#define TG_VECTOR_FUNCTION2(name, ulp)                                        \
  inline double vector_##name(double a, double b) { return std::name(a, b); } \
  inline float vector_##name(float a, float b) { return std::name(a, b); }
#endif

TG_VECTOR_FUNCTION1(cbrt, u10)
TG_VECTOR_FUNCTION1(exp, u10)
TG_VECTOR_FUNCTION1(exp2, u10)
TG_VECTOR_FUNCTION1(expm1, u10)
TG_VECTOR_FUNCTION1(log, u10)
TG_VECTOR_FUNCTION1(log2, u10)
TG_VECTOR_FUNCTION1(log10, u10)
TG_VECTOR_FUNCTION1(log1p, u10)
TG_VECTOR_FUNCTION1(sin, u10)
TG_VECTOR_FUNCTION1(cos, u10)
TG_VECTOR_FUNCTION1(tan, u10)
TG_VECTOR_FUNCTION1(asin, u10)
TG_VECTOR_FUNCTION1(acos, u10)
TG_VECTOR_FUNCTION1(atan, u10)
TG_VECTOR_FUNCTION1(sinh, u10)
TG_VECTOR_FUNCTION1(cosh, u10)
TG_VECTOR_FUNCTION1(tanh, u10)
TG_VECTOR_FUNCTION1(asinh, u10)
TG_VECTOR_FUNCTION1(acosh, u10)
TG_VECTOR_FUNCTION1(atanh, u10)
TG_VECTOR_FUNCTION1(erf, u10)
TG_VECTOR_FUNCTION1(erfc, u15)
TG_VECTOR_FUNCTION2(pow, u10)
TG_VECTOR_FUNCTION2(atan2, u10)
TG_VECTOR_FUNCTION2(hypot, u05)

#undef TG_VECTOR_FUNCTION1
#undef TG_VECTOR_FUNCTION2

using ir::Op;

#ifdef __clang__
#define TG_IVDEP _Pragma("clang loop vectorize(enable)")
#elif defined(TG_PORTABLE_BITS)
#define TG_IVDEP _Pragma("omp simd")
#else
#define TG_IVDEP _Pragma("GCC ivdep")
#endif

// out[i] = f(a[i], b[i], c[i]), in a form that compilers vectorise.
template <class T, class F>
inline void each(T* out, const T* a, const T* b, const T* c, std::size_t n, F f) {
  TG_IVDEP
  for (std::size_t i = 0; i < n; ++i) out[i] = f(a[i], b[i], c[i]);
}

template <class T>
struct Bits;
template <>
struct Bits<double> {
  using Type = std::uint64_t;
};
template <>
struct Bits<float> {
  using Type = std::uint32_t;
};

template <class T>
inline typename Bits<T>::Type bits(T x) {
  return __builtin_bit_cast(typename Bits<T>::Type, x);
}

// -0 is less than +0: equal numbers differ in the sign of zero at most.
template <class T>
inline T minimum(T a, T b) {
  const T equal = __builtin_bit_cast(T, bits(a) | bits(b));
  const T ordered = a == b ? equal : (a < b ? a : b);
  return a != a ? a : (b != b ? b : ordered);
}

template <class T>
inline T maximum(T a, T b) {
  const T equal = __builtin_bit_cast(T, bits(a) & bits(b));
  const T ordered = a == b ? equal : (a > b ? a : b);
  return a != a ? a : (b != b ? b : ordered);
}

// Half to even in the rounding mode that programs have.
template <class T>
inline T round_even(T x) {
  return std::nearbyint(x);
}

// The remainder is exact, and has the sign of the divisor.
template <class T>
inline T floored_mod(T a, T b) {
  const T remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(remainder, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

#ifndef TG_PORTABLE_BITS

// Applies a library's vector functions; operands outside their range go through libm one by one.
template <class T, class F>
inline void by_vector1(T* out, const T* a, std::size_t n, F f) {
  for (std::size_t i = 0; i < n; i += Vector<T>::kWidth) {
    Vector<T>::store(out + i, f(Vector<T>::load(a + i)));
  }
}

template <class T, class F>
inline void by_vector2(T* out, const T* a, const T* b, std::size_t n, F f) {
  for (std::size_t i = 0; i < n; i += Vector<T>::kWidth) {
    Vector<T>::store(out + i, f(Vector<T>::load(a + i), Vector<T>::load(b + i)));
  }
}

template <class T>
inline T magnitude(T x) {
  return x < 0 ? -x : x;
}

// Uses `scalar` instead of `f` where |a| > limit (NaN passes through f).
template <class T, class F, class S>
inline void by_vector1_within(T* out, const T* a, std::size_t n, T limit, F f, S scalar) {
  bool beyond = false;
  for (std::size_t i = 0; i < n; ++i) beyond |= magnitude(a[i]) > limit;
  if (!beyond) return by_vector1(out, a, n, f);
  T kept[kTile];
  for (std::size_t i = 0; i < n; ++i) kept[i] = a[i];
  by_vector1(out, a, n, f);
  for (std::size_t i = 0; i < n; ++i) {
    if (magnitude(kept[i]) > limit) out[i] = scalar(kept[i]);
  }
}

// Uses `scalar` instead of `f` where the result is infinite: f overflows slightly too early.
template <class T, class F, class S>
inline void by_vector2_overflowing(T* out, const T* a, const T* b, std::size_t n, F f, S scalar) {
  alignas(64) T results[kTile];
  by_vector2(results, a, b, n, f);
  for (std::size_t i = 0; i < n; ++i) {
    const bool infinite =
        magnitude(results[i]) > (sizeof(T) == sizeof(double) ? T(__DBL_MAX__) : T(__FLT_MAX__));
    out[i] = infinite ? scalar(a[i], b[i]) : results[i];
  }
}

template <class T>
inline void sigmoid(T* out, const T* a, const T*, const T*, std::size_t n) {
  alignas(64) T power[kTile];
  TG_IVDEP
  for (std::size_t i = 0; i < n; ++i) power[i] = -magnitude(a[i]);
  by_vector1(power, power, n, [](auto v) { return vector_exp(v); });
  TG_IVDEP
  for (std::size_t i = 0; i < n; ++i) {
    // Corrects the rounding error of the sum.
    const T sum = T(1) + power[i], rest = power[i] - (sum - T(1));
    const T quotient = (a[i] < 0 ? power[i] : T(1)) / sum;
    out[i] = quotient - quotient * (rest / sum);
  }
}

// erfc(z) / 2 at z = -a / √2, with the evaluator's correction of the rounding of z. Beyond the
// limit the library's function is accurate only to the smallest normal number, and the result may
// be subnormal: there it is rounded once, from a wider type.
template <class T>
inline void normal_cdf(T* out, const T* a, const T*, const T*, std::size_t n) {
  using Wide = std::conditional_t<sizeof(T) == sizeof(double), long double, double>;
  constexpr auto kInverseSqrt2 = static_cast<Wide>(0.707106781186547524400844362104849039L);
  constexpr T kLimit = sizeof(T) == sizeof(double) ? T(26) : T(9);
  constexpr T kFactor = static_cast<T>(kInverseSqrt2);
  constexpr T kRest =
      sizeof(T) == sizeof(double) ? T(-4.8336466567264567e-17) : T(kInverseSqrt2 - kFactor);
  alignas(64) T z[kTile], y[kTile];
  TG_IVDEP
  for (std::size_t i = 0; i < n; ++i) z[i] = -a[i] * kFactor;
  by_vector1(y, z, n, [](auto v) { return vector_erfc(v); });
  for (std::size_t i = 0; i < n; ++i) {
    if (magnitude(z[i]) > kLimit) {
      out[i] = static_cast<T>(std::erfc(-a[i] * kInverseSqrt2) / 2);
      continue;
    }
    const T rest = std::fma(-a[i], kFactor, -z[i]) - a[i] * kRest;
    const T lost = y[i] * rest * (z[i] + std::sqrt(z[i] * z[i] + 2));
    out[i] = T(0.5) * (z[i] > 0 && y[i] != 0 ? y[i] - lost : y[i]);
  }
}

#endif

#define TG_ELEMENTWISE(expression)                                                   \
  [](T* out, const T* pa, const T* pb, const T* pc, std::size_t n) {                 \
    each(out, pa, pb, pc, n,                                                         \
         []([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) -> T { \
           return expression;                                                        \
         });                                                                         \
  }
#ifdef TG_PORTABLE_BITS
// The functions of devices, on one number. Loops become vector code where all calls in them are
// inlined.
#define TG_FLAT __attribute__((flatten))
#define TG_PORTABLE(name, ...)                        \
  if constexpr (sizeof(T) == sizeof(double)) {        \
    return glsl_as_cpp::tg_##name##_f64(__VA_ARGS__); \
  } else {                                            \
    return glsl_as_cpp::tg_##name##_f32(__VA_ARGS__); \
  }
#define TG_FUNCTION1(name)                                                         \
  [](T* out, const T* pa, const T* pb, const T* pc, std::size_t n) {               \
    each(out, pa, pb, pc, n, [](T a, T, T) TG_FLAT -> T { TG_PORTABLE(name, a) }); \
  }
#define TG_FUNCTION2(name)                                                              \
  [](T* out, const T* pa, const T* pb, const T* pc, std::size_t n) {                    \
    each(out, pa, pb, pc, n, [](T a, T b, T) TG_FLAT -> T { TG_PORTABLE(name, a, b) }); \
  }
#define TG_FUNCTION1_WITHIN(name, limit64, limit32) TG_FUNCTION1(name)
#define TG_FUNCTION_OF_ANGLE(name)                                        \
  [](T* out, const T* pa, const T*, const T*, std::size_t n) {            \
    by_angle(                                                             \
        out, pa, n, [](T a) TG_FLAT -> T { TG_PORTABLE(name##_near, a) }, \
        [](T a) -> T { TG_PORTABLE(name, a) });                           \
  }
#define TG_FUNCTION2_OVERFLOWING(name) TG_FUNCTION2(name)

// Uses `far` where |a| is beyond the near angles, or NaN.
template <class T, class Near, class Far>
inline void by_angle(T* out, const T* a, std::size_t n, Near near, Far far) {
  const T most = sizeof(T) == sizeof(double) ? T(glsl_as_cpp::tg_trig_near_f64)
                                             : T(glsl_as_cpp::tg_trig_near_f32);
  T kept[kTile];
  bool beyond = false;
  for (std::size_t i = 0; i < n; ++i) {
    kept[i] = a[i];
    beyond |= !(__builtin_fabs(a[i]) <= most);
  }
  TG_IVDEP
  for (std::size_t i = 0; i < n; ++i) out[i] = near(kept[i]);
  if (!beyond) return;
  for (std::size_t i = 0; i < n; ++i) {
    if (!(__builtin_fabs(kept[i]) <= most)) out[i] = far(kept[i]);
  }
}

template <class T>
inline void sigmoid(T* out, const T* a, const T* b, const T* c, std::size_t n) {
  each(out, a, b, c, n, [](T x, T, T) TG_FLAT -> T { TG_PORTABLE(sigmoid, x) });
}
template <class T>
inline void normal_cdf(T* out, const T* a, const T* b, const T* c, std::size_t n) {
  each(out, a, b, c, n, [](T x, T, T) TG_FLAT -> T { TG_PORTABLE(normal_cdf, x) });
}
#else
#define TG_FUNCTION1(name)                                          \
  [](T* out, const T* a, const T*, const T*, std::size_t n) {       \
    by_vector1(out, a, n, [](auto v) { return vector_##name(v); }); \
  }
#define TG_FUNCTION_OF_ANGLE(name) TG_FUNCTION1(name)
#define TG_FUNCTION1_WITHIN(name, limit64, limit32)                                 \
  [](T* out, const T* a, const T*, const T*, std::size_t n) {                       \
    by_vector1_within(                                                              \
        out, a, n, sizeof(T) == sizeof(double) ? T(limit64) : T(limit32),           \
        [](auto v) { return vector_##name(v); }, [](T x) { return std::name(x); }); \
  }
#define TG_FUNCTION2(name)                                                        \
  [](T* out, const T* a, const T* b, const T*, std::size_t n) {                   \
    by_vector2(out, a, b, n, [](auto u, auto v) { return vector_##name(u, v); }); \
  }

#define TG_FUNCTION2_OVERFLOWING(name)                                    \
  [](T* out, const T* a, const T* b, const T*, std::size_t n) {           \
    by_vector2_overflowing(                                               \
        out, a, b, n, [](auto u, auto v) { return vector_##name(u, v); }, \
        [](T x, T y) { return std::name(x, y); });                        \
  }
#endif

constexpr Op kHaveVectorFunction[] = {
#define TG_VECTOR_FUNCTION(id, function) Op::id,
#include "vector_functions.def"
#undef TG_VECTOR_FUNCTION
};

constexpr bool is_loop_over_value(Op op) {
  for (const Op other : kHaveVectorFunction) {
    if (op == other) return false;
  }
  return !ir::is_leaf(op) && !ir::info(op).composite;
}

/// Null for leaves and composite ops.
template <class T>
typename TileOps<T>::Map map_of(Op op) {
#define TG_VECTOR_FUNCTION(id, function) \
  if (op == Op::id) return function;
#include "vector_functions.def"
#undef TG_VECTOR_FUNCTION
  switch (op) {
#define TG_OP(id, value, ...)                                               \
  case Op::id:                                                              \
    if constexpr (is_loop_over_value(Op::id)) return TG_ELEMENTWISE(value); \
    return nullptr;
#include "../../../ir/ops.def"
#undef TG_OP
  }
  return nullptr;
}

template <class T>
typename TileOps<T>::Map map_of(Pair pair) {
  switch (pair) {
#define TG_PAIR(id, inner, outer, operand, first, second)                              \
  case Pair::id:                                                                       \
    return [](T* out, const T* pa, const T* pb, const T* pc, std::size_t n) {          \
      each(out, pa, pb, pc, n,                                                         \
           []([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) -> T { \
             const T y = first;                                                        \
             return second;                                                            \
           });                                                                         \
    };
#include "pairs.def"
#undef TG_PAIR
  }
  return nullptr;
}

template <class T>
void gather(T* out, const T* from, const std::uint32_t* index, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = from[index[i]];
}

template <class T>
void copy(T* out, const T* in, std::size_t n) {
  TG_IVDEP
  for (std::size_t i = 0; i < n; ++i) out[i] = in[i];
}

template <class T>
void stream(T* out, const T* in, std::size_t n) {
  for (std::size_t i = 0; i < n; i += Vector<T>::kWidth) {
    Vector<T>::stream(out + i, Vector<T>::load(in + i));
  }
}

template <class T>
TileOps<T> make_tile_ops() {
  TileOps<T> ops = {};
  for (std::size_t k = 0; k < ir::kOpCount; ++k) ops.map[k] = map_of<T>(static_cast<Op>(k));
  for (std::size_t k = 0; k < kPairCount; ++k) ops.pair[k] = map_of<T>(static_cast<Pair>(k));
  ops.gather = gather<T>;
  ops.copy = copy<T>;
  ops.stream = stream<T>;
  ops.name = kInstructionSet;
  return ops;
}

#undef TG_ELEMENTWISE
#undef TG_FUNCTION1
#undef TG_FUNCTION1_WITHIN
#undef TG_FUNCTION_OF_ANGLE
#undef TG_FUNCTION2
#undef TG_FUNCTION2_OVERFLOWING
#undef TG_IVDEP
#undef TG_PORTABLE
#undef TG_FLAT

}  // namespace
}  // namespace topograd::runtime::cpu
