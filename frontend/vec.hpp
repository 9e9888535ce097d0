// Vec2, Vec3, Vec4: fixed-size groups of Values with the operations of vector algebra.
#pragma once

#include "value/math.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <ostream>

namespace topograd {

struct Vec2 {
  static constexpr int kSize = 2;
  Value x, y;
  /// Component k, 0 <= k < kSize. The same for the other sizes.
  const Value& operator[](int k) const { return k == 0 ? x : y; }
};

struct Vec3 {
  static constexpr int kSize = 3;
  Value x, y, z;
  const Value& operator[](int k) const { return k == 0 ? x : k == 1 ? y : z; }
};

struct Vec4 {
  static constexpr int kSize = 4;
  Value x, y, z, w;
  const Value& operator[](int k) const { return k == 0 ? x : k == 1 ? y : k == 2 ? z : w; }
};

template <class V>
concept VecType = std::same_as<V, Vec2> || std::same_as<V, Vec3> || std::same_as<V, Vec4>;

/// Prints the formulas of the components, "(x[0], x[1] + 2)".
std::ostream& operator<<(std::ostream& out, const Vec2& v);
std::ostream& operator<<(std::ostream& out, const Vec3& v);
std::ostream& operator<<(std::ostream& out, const Vec4& v);

namespace detail {

/// Applies f to each component.
template <class F>
Vec2 zip(F f, const Vec2& a) {
  return {f(a.x), f(a.y)};
}
template <class F>
Vec3 zip(F f, const Vec3& a) {
  return {f(a.x), f(a.y), f(a.z)};
}
template <class F>
Vec4 zip(F f, const Vec4& a) {
  return {f(a.x), f(a.y), f(a.z), f(a.w)};
}
template <class F>
Vec2 zip(F f, const Vec2& a, const Vec2& b) {
  return {f(a.x, b.x), f(a.y, b.y)};
}
template <class F>
Vec3 zip(F f, const Vec3& a, const Vec3& b) {
  return {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z)};
}
template <class F>
Vec4 zip(F f, const Vec4& a, const Vec4& b) {
  return {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)};
}

/// An Eigen vector of 2 to 4 doubles, or an expression of one.
template <class A>
concept EigenNumbers = requires(const A& a) {
  requires std::same_as<typename A::Scalar, double>;
  requires bool(A::IsVectorAtCompileTime);
  requires int(A::SizeAtCompileTime) >= 2 && int(A::SizeAtCompileTime) <= 4;
  a.eval()[0];
};

template <class A>
struct VecOf {};
template <VecType V>
struct VecOf<V> {
  using type = V;
};
template <>
struct VecOf<std::array<double, 2>> {
  using type = Vec2;
};
template <>
struct VecOf<std::array<double, 3>> {
  using type = Vec3;
};
template <>
struct VecOf<std::array<double, 4>> {
  using type = Vec4;
};
template <EigenNumbers A>
struct VecOf<A> : VecOf<std::array<double, std::size_t(A::SizeAtCompileTime)>> {};

/// Two operands of one vector type, at least one of them made of Values.
template <class A, class B>
concept VecPair = (VecType<A> ||
                   VecType<B>)&&std::same_as<typename VecOf<A>::type, typename VecOf<B>::type>;
/// The same, with numbers as one of them.
template <class A, class B>
concept MixedPair = VecPair<A, B> && !(VecType<A> && VecType<B>);

}  // namespace detail

template <VecType V>
const V& lift(const V& v) {
  return v;
}
/// Converts numbers to a vector; each of them is data.
inline Vec2 lift(const std::array<double, 2>& v) { return {v[0], v[1]}; }
inline Vec3 lift(const std::array<double, 3>& v) { return {v[0], v[1], v[2]}; }
inline Vec4 lift(const std::array<double, 4>& v) { return {v[0], v[1], v[2], v[3]}; }
template <detail::EigenNumbers A>
auto lift(const A& v) {
  const auto numbers = v.eval();  // an expression is computed once
  std::array<double, std::size_t(A::SizeAtCompileTime)> copy;
  for (std::size_t k = 0; k < copy.size(); ++k)
    copy[k] = numbers[static_cast<decltype(v.size())>(k)];
  return lift(copy);
}

template <class A, class B>
requires detail::VecPair<A, B>
auto operator+(const A& a, const B& b) {
  return detail::zip([](const Value& s, const Value& t) { return s + t; }, lift(a), lift(b));
}
template <class A, class B>
requires detail::VecPair<A, B>
auto operator-(const A& a, const B& b) {
  return detail::zip([](const Value& s, const Value& t) { return s - t; }, lift(a), lift(b));
}
template <VecType V>
V operator-(const V& a) {
  return detail::zip([](const Value& s) { return -s; }, a);
}
template <VecType V>
V operator*(const V& a, const Value& s) {
  return detail::zip([&](const Value& t) { return t * s; }, a);
}
template <VecType V>
V operator*(const Value& s, const V& a) {
  return detail::zip([&](const Value& t) { return s * t; }, a);
}
template <VecType V>
V operator/(const V& a, const Value& s) {
  return detail::zip([&](const Value& t) { return t / s; }, a);
}
template <VecType V, class B>
V& operator+=(V& a, const B& b) {
  return a = a + b;
}
template <VecType V, class B>
V& operator-=(V& a, const B& b) {
  return a = a - b;
}
template <VecType V>
V& operator*=(V& a, const Value& s) {
  return a = a * s;
}
template <VecType V>
V& operator/=(V& a, const Value& s) {
  return a = a / s;
}

/// Selects each component.
template <VecType V>
V select(const Bool& condition, const V& a, const V& b) {
  return detail::zip([&](const Value& s, const Value& t) { return select(condition, s, t); }, a, b);
}

inline Value dot(const Vec2& a, const Vec2& b) { return a.x * b.x + a.y * b.y; }
inline Value dot(const Vec3& a, const Vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Value dot(const Vec4& a, const Vec4& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

inline Value squared_norm(const Vec2& a) { return square(a.x) + square(a.y); }
inline Value squared_norm(const Vec3& a) { return square(a.x) + square(a.y) + square(a.z); }
inline Value squared_norm(const Vec4& a) {
  return square(a.x) + square(a.y) + square(a.z) + square(a.w);
}

/// Euclidean length, 0 with derivative 0 at the origin.
///
/// Accurate for lengths from 1e-154 to 1e154 (f32: 1e-19 to 1e19), whose squares are in range; 0
/// below, infinity with derivative 0 above. hypot() has no such bounds. NaN stays NaN.
template <VecType V>
Value norm(const V& a) {
  const Value s = squared_norm(a);
  const Value zero = literal(0.0);
  return select(s == zero, zero, sqrt(s));
}

/// The direction of `a`; the zero vector, with derivative 0, at the origin. NaN stays NaN.
template <VecType V>
V normalize(const V& a) {
  const Value s = squared_norm(a);
  const Value zero = literal(0.0);
  const Value scale = select(s == zero, zero, rsqrt(s));
  return detail::zip([&](const Value& t) { return t * scale; }, a);
}

template <VecType V>
Value squared_distance(const V& a, const V& b) {
  return squared_norm(a - b);
}
/// Length of a - b, with derivative 0 where the points coincide.
template <VecType V>
Value distance(const V& a, const V& b) {
  return norm(a - b);
}
/// a + t (b - a).
template <VecType V>
V lerp(const V& a, const V& b, const Value& t) {
  return a + (b - a) * t;
}

/// z component of the cross product of two vectors in the plane.
inline Value cross(const Vec2& a, const Vec2& b) { return a.x * b.y - a.y * b.x; }
inline Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// The same with numbers as one operand: a std::array or an Eigen vector.
template <class A, class B>
requires detail::MixedPair<A, B> Value dot(const A& a, const B& b) { return dot(lift(a), lift(b)); }
template <class A, class B>
requires detail::MixedPair<A, B>
auto cross(const A& a, const B& b) { return cross(lift(a), lift(b)); }
template <class A, class B>
requires detail::MixedPair<A, B> Value squared_distance(const A& a, const B& b) {
  return squared_norm(a - b);
}
template <class A, class B>
requires detail::MixedPair<A, B> Value distance(const A& a, const B& b) { return norm(a - b); }

/// The part of `a` along `onto`; the zero vector, with derivative 0, where `onto` is zero.
template <VecType V>
V project(const V& a, const V& onto) {
  const Value s = squared_norm(onto);
  const Value zero = literal(0.0);
  return onto * select(s == zero, zero, dot(a, onto) / s);
}
/// The part of `a` perpendicular to `from`; `a` itself where `from` is zero.
template <VecType V>
V reject(const V& a, const V& from) {
  return a - project(a, from);
}

/// Angle between two vectors in [0, pi] radians; 0 if either is zero.
///
/// Accurate for all angles. At 0 and pi, where the angle has a kink, its derivative is 0.
/// Source: Kahan, How Futile are Mindless Assessments of Roundoff, 2006, section 12.
inline Value angle(const Vec2& a, const Vec2& b) { return atan2(abs(cross(a, b)), dot(a, b)); }
inline Value angle(const Vec3& a, const Vec3& b) { return atan2(norm(cross(a, b)), dot(a, b)); }
Value angle(const Vec4& a, const Vec4& b);
/// Angle in (-pi, pi] radians by which `a` is turned counter-clockwise into the direction of `b`.
inline Value signed_angle(const Vec2& a, const Vec2& b) { return atan2(cross(a, b), dot(a, b)); }

}  // namespace topograd
