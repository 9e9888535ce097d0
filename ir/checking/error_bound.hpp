// How far a kernel's values may be from the evaluator's: of one op, and of whole programs.
#pragma once

#include "../evaluate.hpp"
#include "../program.hpp"

#include <array>
#include <span>
#include <vector>

namespace topograd::ir {

/// Spacing of T's numbers at `x`: one unit in the last place of x rounded to T, down to that of the
/// subnormal numbers; beyond T's range that of the largest number. T is float or double.
template <class T>
long double ulp(long double x);

/// The result of one op beside what it should be.
struct Deviation {
  long double expected = 0;  ///< by the scalar evaluator
  double ulp = 0;      ///< distance; infinity where a NaN, an infinity or a zero's sign is wrong
  bool within = true;  ///< the bound of the op table holds
};

/// Compares `got` with op(operands) (unused operands are ignored): in T bit for bit where the table
/// says 0, else in long double with the table's bound. A NaN equals any NaN, a zero only the same
/// zero; infinity counts as the first number beyond T's range. Composite ops: compare their parts.
template <class T>
Deviation deviation(Op op, const std::array<T, 3>& operands, T got);

/// A node computed in T lies within `error` of `value`; nothing is known where `error` is infinite.
struct Enclosure {
  long double value = 0;
  long double error = 0;

  bool known() const;
  /// `got` is inside. NaN and infinity are inside only of themselves.
  bool contains(long double got) const;
};

/// One node's enclosure, and whether a comparison, rounding op or jump was certain.
struct Carried {
  Enclosure enclosure;
  bool decided = true;
};
/// What an enclosure is to hold.
enum class Against {
  evaluator,  ///< what a backend gives: exact ops of exact operands are the evaluator's bits
  exact       ///< also the value without any rounding
};
/// Carries the enclosures of the nodes before it (by id) on to a node that is no leaf. Composite
/// ops go through their parts.
template <class T>
Carried carry(const Node& node, std::span<const Enclosure> nodes,
              Against against = Against::evaluator);

/// What any backend that keeps the op table's bounds may make of a program.
struct RunningError {
  std::vector<Enclosure> nodes;
  /// No comparison, rounding op or jump that an output needs could have gone the other way.
  bool decided = true;
};

/// Error bounds of every node of a program at one point, carried from operands to results: each op
/// at the ends of its operands' intervals in long double, its own bound of the op table added.
/// Results that are certainly zero are exact. Values that certainly overflow T are infinite.
/// Nothing is known of a value after its error exceeds a tenth of it (a tenth, where it is below
/// one).
///
///   inputs  numbers of T
///
/// Throws Error{Shape} as evaluate_nodes() does. Cost: up to 27 evaluations of each node.
/// Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.3 (running error
/// analysis).
template <class T>
RunningError running_error(const Program& program, const Inputs<T>& inputs,
                           Against against = Against::evaluator);

}  // namespace topograd::ir
