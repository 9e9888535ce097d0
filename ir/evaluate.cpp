// Meaning of the ops on scalars.
#include "evaluate.hpp"

#include "error.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

namespace topograd::ir {
namespace {

template <class T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

// IEEE 754-2019 minimum and maximum: NaN propagates, -0 is less than +0.
template <class T>
T minimum(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return kNan<T>;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class T>
T maximum(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return kNan<T>;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// Floored: the result has the divisor's sign. The remainder is exact, also where the quotient has
// more digits than T; only adding the divisor rounds.
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

// Half to even without depending on the rounding mode of the environment.
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
  // The inner product is no smaller than t: nothing but the result can fall below the normal range.
  return t * (t * (T(3) - T(2) * t));
}

// erfc(z) / 2 at z = -x / √2, with what rounding took from z put back: in the tail the relative
// slope of erfc is about -z - √(z² + 2).
// Source: Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.13 (the slope's bounds).
template <class T>
T normal_cdf(T x) {
  using Wide = long double;
  constexpr Wide kInverseSqrt2 = 0.707106781186547524400844362104849039L, kRest = 1.89503e-20L;
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

// x f(x) for a distribution function f, from its lower tail, which is 0 beyond `end`. The rectified
// part keeps the sign of zero.
template <class T>
T gated(T x, T end, T (*distribution)(T)) {
  const T magnitude = maximum(x, -x);
  return maximum(x, T(-0.0)) - minimum(magnitude, end) * distribution(-magnitude);
}

}  // namespace

template <class T>
T apply(Op op, T a, T b, T c) {
  switch (op) {
    case Op::Parameter:
    case Op::Data:
    case Op::Uniform:
    case Op::Literal:
    case Op::Tangent:
    case Op::Seed: return kNan<T>;
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Neg: return -a;
    case Op::Fma: return std::fma(a, b, c);
    case Op::Square: return a * a;
    case Op::Cube: return a * a * a;
    case Op::Reciprocal: return T(1) / a;
    case Op::Zmul: return a == 0 ? T(0) : a * b;
    case Op::Pow: return std::pow(a, b);
    case Op::Sqrt: return std::sqrt(a);
    case Op::Rsqrt: return T(1) / std::sqrt(a);
    case Op::Cbrt: return std::cbrt(a);
    case Op::Hypot: return std::hypot(a, b);
    case Op::Exp: return std::exp(a);
    case Op::Exp2: return std::exp2(a);
    case Op::Expm1: return std::expm1(a);
    case Op::Log: return std::log(a);
    case Op::Log2: return std::log2(a);
    case Op::Log10: return std::log10(a);
    case Op::Log1p: return std::log1p(a);
    case Op::Sin: return std::sin(a);
    case Op::Cos: return std::cos(a);
    case Op::Tan: return std::tan(a);
    case Op::Asin: return std::asin(a);
    case Op::Acos: return std::acos(a);
    case Op::Atan: return std::atan(a);
    case Op::Atan2: return std::atan2(a, b);
    case Op::Sinh: return std::sinh(a);
    case Op::Cosh: return std::cosh(a);
    case Op::Tanh: return std::tanh(a);
    case Op::Asinh: return std::asinh(a);
    case Op::Acosh: return std::acosh(a);
    case Op::Atanh: return std::atanh(a);
    case Op::Erf: return std::erf(a);
    case Op::Abs: return std::fabs(a);
    case Op::Sign: return a > 0 ? T(1) : a < 0 ? T(-1) : a;
    case Op::Floor: return std::floor(a);
    case Op::Ceil: return std::ceil(a);
    case Op::Round: return round_even(a);
    case Op::Trunc: return std::trunc(a);
    case Op::Mod: return floored_mod(a, b);
    case Op::Min: return minimum(a, b);
    case Op::Max: return maximum(a, b);
    case Op::Eq: return a == b;
    case Op::Ne: return a != b;
    case Op::Lt: return a < b;
    case Op::Le: return a <= b;
    case Op::Gt: return a > b;
    case Op::Ge: return a >= b;
    case Op::And: return a != 0 && b != 0;
    case Op::Or: return a != 0 || b != 0;
    case Op::Not: return a == 0;
    case Op::Select: return a != 0 ? b : c;
    case Op::Fract: return a - std::floor(a);
    case Op::Clamp: return clamp(a, b, c);
    case Op::Step: return b < a ? T(0) : T(1);
    case Op::Smoothstep: return smoothstep(a, b, c);
    case Op::Mix: return a * (T(1) - c) + b * c;
    case Op::Relu: return a <= 0 ? T(0) : a;
    case Op::LeakyRelu: return a <= 0 ? b * a : a;
    case Op::Elu: return a <= 0 ? b * std::expm1(a) : a;
    case Op::Gelu: return gated<T>(a, 100, normal_cdf);
    case Op::Sigmoid: return sigmoid(a);
    case Op::Softplus: return maximum(a, T(0)) + std::log1p(std::exp(-std::fabs(a)));
    case Op::Silu: return gated<T>(a, 1000, sigmoid);
    case Op::NormalCdf: return normal_cdf(a);
  }
  return kNan<T>;
}

namespace {

template <class T>
T read(std::span<const T> space, const Node& node) {
  if (node.slot() < space.size()) return space[node.slot()];
  throw Error(ErrorCode::Shape, "evaluate: expected at least " + std::to_string(node.slot() + 1) +
                                    " values for " + std::string(info(node.op).name) +
                                    " leaves, got " + std::to_string(space.size()));
}

template <class T>
T leaf_value(const Node& node, const Inputs<T>& in) {
  switch (node.op) {
    case Op::Parameter: return read(in.parameters, node);
    case Op::Data: return read(in.data, node);
    case Op::Uniform: return read(in.uniforms, node);
    case Op::Tangent: return read(in.tangents, node);
    case Op::Seed: return read(in.seeds, node);
    default: return static_cast<T>(node.literal());
  }
}

}  // namespace

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
