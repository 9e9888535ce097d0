// Functions of functions at ordinary and special points: drivers' compilers that compile each
// function correctly may still fail on compositions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../ir/checking/error_bound.hpp"
#include "../../ir/program.hpp"
#include "rows.hpp"

namespace topograd::runtime {

/// Ops applied to each other's results, innermost first.
using Composition = std::vector<ir::Op>;

/// Every op of the table with numbers as operands and result.
std::vector<ir::Op> composable_ops();

/// "atan(tan(a))", "pow(sin(a), b)", or "pow(b, sin(a))" for slot 1 of the outermost op.
std::string text(std::span<const ir::Op> composition, std::size_t slot = 0);

/// Makes the program of a composition: each op takes the inner result as its first operand and
/// parameters 1 and 2 as the others; the innermost starts with parameter 0. It has one output for
/// each operand of the outermost op that can take the inner result. Composite ops are expanded.
///
///   composition  at least one op
///
/// Throws Error{InvalidArgument} for an empty one.
ir::Program compose(std::span<const ir::Op> composition);

/// 64 rows of three parameters: ordinary numbers, ends of domains, zeros of both signs, subnormals,
/// infinities, NaN, huge and tiny numbers, large angles.
Rows composition_rows(Precision precision);

/// A number beyond its bound.
struct WrongNumber {
  const RowRunner* runner = nullptr;  ///< the one that computed it
  std::string composition;            ///< text()
  std::string what;                   ///< "value", "derivative", or "value beside derivative"
  std::vector<double> at;             ///< parameters a, b and c
  double got = 0, expected = 0;

  /// "value of atan(tan(a)) at a = 0.84, b = 0.3, c = 2: got 1.25603e-38, expected 0.84"
  std::string message() const;
};

struct CompositionReport {
  std::uint64_t compared = 0;   ///< numbers
  std::uint64_t undecided = 0;  ///< numbers without a known bound
  std::vector<WrongNumber> wrong;

  void add(CompositionReport&& other);
};

/// A runner of compositions.
struct CheckedRunner {
  RowRunner* runner = nullptr;
  bool keeps_subnormals = true;  ///< result of keeps_subnormals()
};

/// Runs one kernel of the values, and one of values and their derivatives by parameter 0, on each
/// runner; reports at most one number of each kernel.
///
///   rows     numbers of the runners' precision
///   runners  of one precision
///
/// Throws the errors of the device.
CompositionReport check_composition(std::span<const ir::Op> composition, const Rows& rows,
                                    std::span<const CheckedRunner> runners);

/// True if a sum of subnormal numbers is kept; runs one to find out.
bool keeps_subnormals(RowRunner& runner);

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
