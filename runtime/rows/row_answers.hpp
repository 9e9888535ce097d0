// What programs may give at rows of numbers: the evaluator's values within running error bounds.
#pragma once

#include "../../ir/checking/error_bound.hpp"
#include "../../ir/program.hpp"
#include "rows.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace topograd::runtime {

/// What one output of a program may be in one row.
struct Answer {
  ir::Enclosure enclosure;
  bool compare = true;  ///< decided, and known
  bool tiny = false;    ///< a number on the way may be flushed
};

/// A number that may be lost where subnormal numbers are flushed, also by flushing before rounding.
template <class T>
bool is_tiny(T x) {
  return x != 0 && std::fabs(x) <= std::numeric_limits<T>::min();
}

/// Answers by row, then output. Reads the parameters of `rows` alone, which are numbers of T, float
/// or double. Cost: up to 27 evaluations of each node and row in long double.
template <class T>
std::vector<Answer> find_answers(const ir::Program& program, const Rows& rows);

/// A number that came beside its answer.
template <class T>
ir::Deviation deviation(const Answer& answer, T got);

}  // namespace topograd::runtime
