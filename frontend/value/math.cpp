// Powers with exponents that are part of the structure, and reductions as balanced trees.
#include "math.hpp"

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "../../ir/error.hpp"
#include "reduce.hpp"

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

/// Combines neighbours, level by level; an unpaired one goes to the next level.
Value tree(ir::Op op, std::vector<Value> level) {
  while (level.size() > 1) {
    std::size_t next = 0;
    for (std::size_t k = 0; k < level.size(); k += 2, ++next)
      level[next] = k + 1 < level.size() ? Value::make(op, level[k], level[k + 1]) : level[k];
    level.resize(next);
  }
  return level.front();
}

Value tree_of_some(const char* call, ir::Op op, std::span<const Value> values) {
  if (values.empty())
    throw Error(ErrorCode::Shape, std::string(call) + ": expected at least one Value, got none");
  return tree(op, {values.begin(), values.end()});
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

Value sum(std::span<const Value> values) {
  return values.empty() ? literal(0.0) : tree_of_some("sum", ir::Op::Add, values);
}

Value mean(std::span<const Value> values) {
  return tree_of_some("mean", ir::Op::Add, values) / literal(static_cast<double>(values.size()));
}

Value min(std::span<const Value> values) { return tree_of_some("min", ir::Op::Min, values); }
Value max(std::span<const Value> values) { return tree_of_some("max", ir::Op::Max, values); }

Value norm(std::span<const Value> values) {
  if (values.empty()) return literal(0.0);
  std::vector<Value> squares;
  for (const Value& v : values) squares.push_back(square(v));
  const Value s = tree(ir::Op::Add, std::move(squares));
  const Value zero = literal(0.0);
  return select(s == zero, zero, sqrt(s));
}

// Where a = b both sides of `first` are the same smooth function.
Value logaddexp(const Value& a, const Value& b) {
  const Bool first = a >= b;
  const Value high = select(first, a, b), low = select(first, b, a);
  const Value gap = low - high;  // NaN for infinities of one sign
  const Value half = literal(0.5);
  return select(a == b && gap != gap, half * a + half * b, high + softplus(gap));
}

}  // namespace topograd
