// The derivative rules: one line of calculus per op, and the two products that propagate them.
#pragma once

#include "expression.hpp"

#include <array>

namespace topograd::autodiff {

/// Derivative of y = op(a, b, c) by one operand, for both modes.
struct Partial {
  enum class Kind {
    Zero,        ///< independent of the operand except for jumps
    One,         ///< v -> v
    MinusOne,    ///< v -> -v
    Factor,      ///< v -> v * d
    Steep,       ///< v -> v * d; d may be infinite where y is finite
    Guarded,     ///< v -> 0 if `at` is true, else v * d, where d is finite
    Twice,       ///< v -> (v + v) * d
    Mask,        ///< v -> v * d, or 0 if d is 0
    WhereTrue,   ///< v -> v if d is true, else 0
    WhereFalse,  ///< v -> 0 if d is true, else v
    Above,       ///< v -> v / 2 if `at` is true; else v if d is true, else 0
    Below,       ///< v -> v / 2 if `at` is true; else 0 if d is true, else v
  };
  Kind kind = Kind::Zero;
  Expr d = {};
  Expr at = {};
};

/// Derivatives of the node y = op(a, b, c) of `builder`'s graph by its operands. At kinks:
///
///   abs'(0) = 0; min and max give the derivative to the chosen side, on ties half to each operand
///   sign, floor, ceil, round, trunc and comparisons have derivative 0
///   mod(a, b): 1 by a, -floor(a / b) by b
///   sqrt'(0), log'(0) and the like keep their mathematical value, infinity; the root of a value
///   that is never negative (a sum of squares: a length) has derivative 0 at 0
///   pow(x, y) by y is 0 where x is 0 and y > 0; NaN where x < 0
///   atan2 at (0, 0) and hypot at (0, 0) have derivative 0
///
/// Composite ops have been expanded before. Throws Error{Internal} if one is met.
/// Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3.
std::array<Partial, 3> partials(Builder& builder, ir::Id y);

/// Propagates the adjoint g of y to an operand. A zero adjoint times an infinite or NaN derivative
/// is 0: this is a Zmul if the derivative may be infinite, or if a branch may have masked g. A zero
/// derivative times an adjoint that a Steep one made infinite is 0 as well, as in push().
Expr pull(const Partial& partial, Expr g);

/// Propagates the tangent t of an operand to y. A zero tangent times an infinite derivative is 0,
/// and so is a zero derivative times an infinite tangent: pull() gives the same for that path.
Expr push(const Partial& partial, Expr t);

}  // namespace topograd::autodiff
