// Types, bit casts and built-ins with which the GLSL math library compiles as C++.
//
// Everything here has internal linkage, so that files compiled for different instruction sets share
// no code.
#pragma once

#include <cstdint>

namespace glsl_as_cpp {
namespace {

using uint = std::uint32_t;

struct vec2 {
  float x, y;
  constexpr vec2(float a, float b) : x(a), y(b) {}
};
struct vec3 {
  float x, y, z;
  constexpr vec3(float a, float b, float c) : x(a), y(b), z(c) {}
};
struct dvec2 {
  double x, y;
  constexpr dvec2(double a, double b) : x(a), y(b) {}
};
struct dvec3 {
  double x, y, z;
  constexpr dvec3(double a, double b, double c) : x(a), y(b), z(c) {}
};
struct uvec2 {
  uint x, y;
  constexpr uvec2(uint a, uint b) : x(a), y(b) {}
};
struct uvec4 {
  uint x, y, z, w;
  constexpr uvec4(uint a, uint b, uint c, uint d) : x(a), y(b), z(c), w(d) {}
};

inline uvec2 unpackDouble2x32(double v) {
  const auto bits = __builtin_bit_cast(std::uint64_t, v);
  return {static_cast<uint>(bits), static_cast<uint>(bits >> 32)};
}
inline double packDouble2x32(uvec2 v) {
  return __builtin_bit_cast(double, static_cast<std::uint64_t>(v.y) << 32 | v.x);
}
inline uint floatBitsToUint(float v) { return __builtin_bit_cast(uint, v); }
inline float uintBitsToFloat(uint v) { return __builtin_bit_cast(float, v); }
inline void umulExtended(uint a, uint b, uint& high, uint& low) {
  const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
  high = static_cast<uint>(product >> 32);
  low = static_cast<uint>(product);
}
inline int findMSB(uint v) { return v == 0 ? -1 : 31 - __builtin_clz(v); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
inline double abs(double v) { return __builtin_fabs(v); }
inline float abs(float v) { return __builtin_fabsf(v); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double sqrt(double v) { return __builtin_sqrt(v); }
inline float sqrt(float v) { return __builtin_sqrtf(v); }
inline double floor(double v) { return __builtin_floor(v); }
inline float floor(float v) { return __builtin_floorf(v); }

}  // namespace
}  // namespace glsl_as_cpp
