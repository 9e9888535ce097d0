// Powers with exponents that are part of the structure.
#include "math.hpp"

#include <cmath>
#include <cstdlib>

namespace topograd {
namespace {

constexpr int kMaxWrittenExponent = 64;

/// base^exponent for 1 <= exponent <= kMaxWrittenExponent, by binary powers.
Value positive_power(const Value& base, int exponent) {
  if (exponent == 1) return base;
  if (exponent == 2) return square(base);
  if (exponent == 3) return cube(base);
  const Value half = square(positive_power(base, exponent / 2));
  return exponent % 2 == 0 ? half : half * base;
}

Value literal_power(const Value& base, double exponent) {
  return Value::make(ir::Op::Pow, base, literal(exponent));
}

}  // namespace

Value pow(const Value& base, int exponent) {
  if (exponent == 0) return literal(1.0);
  if (exponent > kMaxWrittenExponent || exponent < -kMaxWrittenExponent)
    return literal_power(base, exponent);
  const Value power = positive_power(base, std::abs(exponent));
  return exponent > 0 ? power : reciprocal(power);
}

Value pow(const Value& base, double exponent) {
  const double twice = 2 * exponent;
  if (!std::isfinite(exponent) || twice != std::nearbyint(twice)) return pow(base, Value(exponent));
  if (std::abs(exponent) > kMaxWrittenExponent) return literal_power(base, exponent);
  const int whole = static_cast<int>(std::floor(std::abs(exponent)));
  if (whole == std::abs(exponent)) return pow(base, static_cast<int>(exponent));
  const Value root = sqrt(base);
  const Value power = whole == 0 ? root : positive_power(base, whole) * root;
  return exponent > 0 ? power : reciprocal(power);
}

}  // namespace topograd
