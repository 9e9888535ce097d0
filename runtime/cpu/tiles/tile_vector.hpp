// Vector registers of the instruction set this file is compiled for, and SLEEF's functions on them.
#pragma once

#include <cmath>
#include <cstddef>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sleef.h>
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

#if defined(__x86_64__)
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

}  // namespace
}  // namespace topograd::runtime::cpu
