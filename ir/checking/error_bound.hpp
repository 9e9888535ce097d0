// Bounds of a kernel's rounding errors, for one op and for whole programs.
#pragma once

#include "../evaluate.hpp"
#include "../program.hpp"

#include <array>
#include <span>
#include <vector>

namespace topograd::ir {

/// Spacing of T's numbers at `x`: one unit in the last place of x rounded to T. It is at least that
/// of the subnormal numbers; beyond T's range it is that of the largest number. T is float or
/// double.
template <class T>
long double ulp(long double x);

/// Distance of one op's result from the expected value.
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

/// The interval of a node's value when computed in T: within `error` of `value`. An infinite
/// `error` means that nothing is known.
struct Enclosure {
  long double value = 0;
  long double error = 0;

  bool known() const;
  /// True if `got` is inside. NaN and infinity are inside only of themselves.
  bool contains(long double got) const;
};

/// One node's enclosure, and a flag: every comparison, rounding op or jump was certain.
struct Carried {
  Enclosure enclosure;
  bool decided = true;
};
/// The values that an enclosure must contain.
enum class Against {
  /// The results of any backend: exact ops of exact operands give the evaluator's bits.
  evaluator,
  /// These results, and the value without any rounding.
  exact
};
/// Computes the enclosure of a non-leaf node from those of earlier nodes. Expands composite ops.
template <class T>
Carried carry(const Node& node, std::span<const Enclosure> nodes,
              Against against = Against::evaluator);

/// Enclosures of the results of any backend that keeps the bounds of the op table.
struct RunningError {
  std::vector<Enclosure> nodes;
  /// True if no comparison, rounding op or jump that an output needs could have gone the other way,
  /// other than comparisons between two results that are near each other.
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
