// Inference of traits, op by op.
#include "traits.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::autodiff {
namespace {

using ir::Op;

Grade worst(std::span<const Traits> operands, Grade at_least) {
  for (const Traits& t : operands) at_least = std::max(at_least, t.grade);
  return at_least;
}

// Bounded functions map NaN to NaN, but infinite operands to finite numbers.
Grade bounded(std::span<const Traits> operands) {
  return worst(operands, Grade::Tame) == Grade::Tame ? Grade::Tame : Grade::Plain;
}

Grade product(const Traits& a, const Traits& b) {
  if (a.grade == Grade::Constant) return std::max(b.grade, Grade::Tame);
  if (b.grade == Grade::Constant) return std::max(a.grade, Grade::Tame);
  return std::max({a.grade, b.grade, Grade::Plain});
}

Grade quotient(Grade numerator, const Traits& denominator) {
  return denominator.away ? std::max(numerator, Grade::Plain) : Grade::Wild;
}

Traits literal(double value) {
  return {.grade = std::isfinite(value) ? Grade::Constant : Grade::Wild,
          .masked = value == 0,
          .nonnegative = value >= 0,
          .away = value != 0 && !std::isnan(value)};
}

Grade grade_of(const ir::Node& node, std::span<const Traits> t) {
  switch (node.op) {
    case Op::Parameter:
    case Op::Tangent:
    case Op::Seed: return Grade::Tame;
    case Op::Data:
    case Op::Uniform: return Grade::Plain;
    case Op::Mul:
    case Op::Zmul: return product(t[0], t[1]);
    case Op::Add:
    case Op::Sub:
    case Op::Neg:
    case Op::Abs:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Trunc:
    case Op::Min:
    case Op::Max: return worst(t, Grade::Tame);
    case Op::Select: return worst(t.subspan(1), Grade::Tame);
    case Op::Fma:
    case Op::Square:
    case Op::Cube:
    case Op::Sqrt:
    case Op::Cbrt:
    case Op::Hypot:
    case Op::Tan:
    case Op::Asinh:
    case Op::Acosh: return worst(t, Grade::Plain);
    case Op::Sin:
    case Op::Cos:
    case Op::Atan:
    case Op::Atan2:
    case Op::Tanh:
    case Op::Erf:
    case Op::Sigmoid:
    case Op::NormalCdf:
    case Op::Sign: return bounded(t);
    case Op::Asin:
    case Op::Acos: return Grade::Plain;
    case Op::Div: return quotient(t[0].grade, t[1]);
    case Op::Reciprocal:
    case Op::Rsqrt: return quotient(Grade::Plain, t[0]);
    case Op::Pow:
      // A power with a positive constant exponent has no pole.
      return t[1].grade == Grade::Constant && t[1].nonnegative ? worst(t, Grade::Plain)
                                                               : Grade::Wild;
    default: return ir::info(node.op).boolean ? Grade::Tame : Grade::Wild;  // Wild is always safe
  }
}

// True if the value may be exactly zero because of a choice or a comparison.
bool is_mask(Op op, std::span<const Traits> t) {
  switch (op) {
    case Op::Sign: return true;
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Zmul:
    case Op::Min:
    case Op::Max: return t[0].masked || t[1].masked;
    case Op::Neg:
    case Op::Abs:
    case Op::Square:
    case Op::Cube:
    case Op::Sqrt:
    case Op::Div: return t[0].masked;
    case Op::Fma: return t[0].masked || t[1].masked || t[2].masked;
    case Op::Select: return t[1].masked || t[2].masked;
    default: return ir::info(op).boolean;
  }
}

bool is_nonnegative(Op op, std::span<const Traits> t) {
  switch (op) {
    case Op::Square:
    case Op::Abs:
    case Op::Sqrt:
    case Op::Exp:
    case Op::Exp2:
    case Op::Cosh:
    case Op::Sigmoid:
    case Op::NormalCdf:
    case Op::Hypot: return true;
    case Op::Add:
    case Op::Mul:
    case Op::Zmul:
    case Op::Div: return t[0].nonnegative && t[1].nonnegative;
    default: return ir::info(op).boolean;
  }
}

bool is_away(Op op, std::span<const Traits> t) {
  switch (op) {
    case Op::Cosh: return true;
    case Op::Add: return t[0].nonnegative && t[1].nonnegative && (t[0].away || t[1].away);
    case Op::Neg:
    case Op::Abs:
    case Op::Square:
    case Op::Sqrt: return t[0].away;
    default: return false;
  }
}

}  // namespace

Traits infer(const ir::Node& node, std::span<const Traits> operands) {
  if (node.op == Op::Literal) return literal(node.literal());
  return {.grade = grade_of(node, operands),
          .masked = is_mask(node.op, operands),
          .nonnegative = is_nonnegative(node.op, operands),
          .away = is_away(node.op, operands)};
}

}  // namespace topograd::autodiff
