// Expected results of programs at rows of numbers: evaluator's values with running error bounds.
#pragma once

#include "../../ir/checking/error_bound.hpp"
#include "../../ir/program.hpp"
#include "rows.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace topograd::runtime {

/// Expected value of one output in one row.
struct Answer {
  ir::Enclosure enclosure;
  bool compare = true;  ///< decided and known
  bool tiny = false;    ///< an intermediate number may be flushed
};

/// True for numbers that may be lost if subnormal numbers are flushed, even before rounding.
template <class T>
bool is_tiny(T x) {
  return x != 0 && std::fabs(x) <= std::numeric_limits<T>::min();
}

/// Answers by row, then output. Reads only the parameters of `rows`, which are numbers of T, float
/// or double. Cost: up to 27 evaluations of each node and row in long double.
template <class T>
std::vector<Answer> find_answers(const ir::Program& program, const Rows& rows);

/// Compares a number with its answer.
template <class T>
ir::Deviation deviation(const Answer& answer, T got);

}  // namespace topograd::runtime
