// The scalar evaluator.
#include "evaluate.hpp"

#include "error.hpp"
#include "program.hpp"

#include <cmath>
#include <string>
#include <type_traits>

namespace topograd::ir {
namespace {

// IEEE 754-2019 minimum and maximum: NaN propagates, -0 is less than +0.
template <class T>
T minimum(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return T(NAN);
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class T>
T maximum(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return T(NAN);
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// Floored modulus: the result has the divisor's sign. The remainder is exact even if the quotient
// has more digits than T; only adding the divisor rounds.
template <class T>
T floored_mod(T a, T b) {
  const T remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(remainder, b);
  return std::signbit(remainder) != std::signbit(b) ? remainder + b : remainder;
}

template <class T>
T clamp(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}

// Rounds half to even without depending on the rounding mode of the environment.
template <class T>
T round_even(T x) {
  const T floor = std::floor(x);
  const T distance = x - floor;
  if (std::isnan(distance) || distance == 0) return x;
  const bool up = distance > T(0.5) || (distance == T(0.5) && std::fmod(floor, T(2)) != 0);
  return std::copysign(up ? floor + 1 : floor, x);
}

template <class T>
T smoothstep(T edge0, T edge1, T x) {
  const T t = clamp<T>((x - edge0) / (edge1 - edge0), 0, 1);
  // The inner product is at least t, so only the result can underflow.
  return t * (t * (T(3) - T(2) * t));
}

// erfc(z) / 2 at z = -x / √2, corrected for the rounding error of z: in the tail the relative slope
// of erfc is about -z - √(z² + 2).
// Source: Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.13 (the slope's bounds).
template <class T>
T normal_cdf(T x) {
  using Wide = long double;
  constexpr Wide kInverseSqrt2 = 0.707106781186547524400844362104849039L;
  // 1 / √2 minus the constant, which has 64 bits on x86 and 113 on aarch64.
  static const Wide kRest = -std::fma(kInverseSqrt2, kInverseSqrt2, -0.5L) / (2 * kInverseSqrt2);
  if (std::isnan(x)) return x;
  const Wide z = -x * kInverseSqrt2;
  const Wide y = std::erfc(z) / 2;
  if (!(z > 0) || y == 0) return static_cast<T>(y);
  const Wide rest = std::fma(static_cast<Wide>(-x), kInverseSqrt2, -z) - x * kRest;
  return static_cast<T>(y - y * rest * (z + std::sqrt(z * z + 2)));
}

template <class T>
T sigmoid(T x) {
  const T power = std::exp(-std::fabs(x));
  return (x < 0 ? power : T(1)) / (T(1) + power);
}

// x f(x) for a distribution function f, computed from its lower tail, which is 0 beyond `end`. The
// rectified part keeps the sign of zero.
template <class T>
T gated(T x, T end, T (*distribution)(T)) {
  const T below = x > 0 ? -x : x;
  return (x > 0 ? x : T(-0.0)) + maximum(below, -end) * distribution(below);
}

template <class T>
T read(std::span<const T> space, const Node& node) {
  if (node.slot() < space.size()) return space[node.slot()];
  throw Error(ErrorCode::Shape, "evaluate: expected at least " + std::to_string(node.slot() + 1) +
                                    " values for " + std::string(info(node.op).name) +
                                    " leaves, got " + std::to_string(space.size()));
}

template <class T>
T leaf_value(const Node& node, const Inputs<T>& in) {
  const auto* const space = leaf_space(node.op, in);
  return space != nullptr ? read(*space, node) : static_cast<T>(node.literal());
}

}  // namespace

template <class T>
T apply(Op op, T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {
  // NOLINTBEGIN(bugprone-branch-clone): leaves have no function.
  switch (op) {
#define TG_OP(id, value, ...) \
  case Op::id:                \
    return value;
#include "ops.def"
#undef TG_OP
  }
  // NOLINTEND(bugprone-branch-clone)
  return T(NAN);
}

template <class T>
std::vector<T> evaluate_nodes(const Program& program, const Inputs<T>& inputs) {
  std::vector<T> values(program.nodes.size());
  for (Id id = 0; id < values.size(); ++id) {
    const Node& n = program.nodes[id];
    if (is_leaf(n.op)) {
      values[id] = leaf_value(n, inputs);
      continue;
    }
    const int k = arity(n.op);
    values[id] = apply<T>(n.op, values[n.args[0]], k > 1 ? values[n.args[1]] : T(0),
                          k > 2 ? values[n.args[2]] : T(0));
  }
  return values;
}

template <class T>
std::vector<T> evaluate(const Program& program, const Inputs<T>& inputs) {
  const std::vector<T> values = evaluate_nodes(program, inputs);
  std::vector<T> out;
  out.reserve(program.outputs.size());
  for (Id id : program.outputs) out.push_back(values[id]);
  return out;
}

#define TG_INSTANTIATE(T)                                                      \
  template T apply<T>(Op, T, T, T);                                            \
  template std::vector<T> evaluate_nodes<T>(const Program&, const Inputs<T>&); \
  template std::vector<T> evaluate<T>(const Program&, const Inputs<T>&);
TG_INSTANTIATE(float)
TG_INSTANTIATE(double)
TG_INSTANTIATE(long double)
#undef TG_INSTANTIATE

}  // namespace topograd::ir
