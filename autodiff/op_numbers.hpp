// Values and partial derivatives of single operations, as numbers.
#pragma once

#include "../ir/evaluate.hpp"
#include "../ir/op.hpp"

#include <cmath>

namespace topograd::autodiff {

/// The derivatives of y = op(a, b, c) by its operands, by the rules of rules.hpp.
void any_partials(ir::Op op, double a, double b, double c, double y, double d[3]);

/// Values of the most frequent ops; with Partials also d, the derivatives by each operand.
template <bool Partials>
struct OpNumbers {
  static double add(double a, double b, double* d) {
    if constexpr (Partials) d[0] = d[1] = 1;
    return a + b;
  }
  static double sub(double a, double b, double* d) {
    if constexpr (Partials) d[0] = 1, d[1] = -1;
    return a - b;
  }
  static double mul(double a, double b, double* d) {
    if constexpr (Partials) d[0] = b, d[1] = a;
    return a * b;
  }
  static double div(double a, double b, double* d) {
    const double y = a / b;
    if constexpr (Partials) d[0] = 1 / b, d[1] = -(y * d[0]);
    return y;
  }
  static double neg(double a, double* d) {
    if constexpr (Partials) d[0] = -1;
    return -a;
  }
  static double square(double a, double* d) {
    if constexpr (Partials) d[0] = a + a;
    return a * a;
  }
  static double exp(double a, double* d) {
    const double y = std::exp(a);
    if constexpr (Partials) d[0] = y;
    return y;
  }
  ///   guarded  the derivative at 0 is 0
  static double root(double a, bool guarded, double* d) {
    const double y = std::sqrt(a);
    if constexpr (Partials) d[0] = y == 0 && guarded ? 0 : 0.5 / y;
    return y;
  }
  static double any(ir::Op op, double a, double b, double c, bool guarded, double* d) {
    using ir::Op;
    switch (op) {  // NOLINT(clang-diagnostic-switch-enum): any_partials() has the others
      case Op::Add: return add(a, b, d);
      case Op::Sub: return sub(a, b, d);
      case Op::Mul: return mul(a, b, d);
      case Op::Div: return div(a, b, d);
      case Op::Neg: return neg(a, d);
      case Op::Square: return square(a, d);
      case Op::Exp: return exp(a, d);
      case Op::Sqrt: return root(a, guarded, d);
      default: break;
    }
    const double y = ir::apply<double>(op, a, b, c);
    if constexpr (Partials) any_partials(op, a, b, c, y, d);
    return y;
  }
};

}  // namespace topograd::autodiff
