// Values and Jacobian of an expression, on the scalar evaluator.
#pragma once

#include "../../frontend/problem.hpp"

#include <functional>
#include <vector>

namespace topograd::test {

using Numbers = std::vector<double>;

/// Rows of an expression over an array of unknowns and their Jacobian, row-major, by unknown.
struct Evaluated {
  Numbers rows, jacobian;
};
using Expression = std::function<std::vector<Value>(const Parameters&)>;

/// Traces `f` into a problem, differentiates it and evaluates both at `values`.
Evaluated evaluate(Numbers values, const Expression& f);
/// The same in single precision.
Evaluated evaluate_single(Numbers values, const Expression& f);

/// Largest difference between the Jacobian and central differences of the rows in long double,
/// relative to the larger of 1 and the derivative.
double difference_error(const Numbers& values, const Expression& f);

/// Three unknowns from `first` on, and the three rows of a vector.
inline Vec3 vec(const Parameters& x, std::size_t first) {
  return {x[first], x[first + 1], x[first + 2]};
}
inline std::vector<Value> list(const Vec3& v) { return {v.x, v.y, v.z}; }

}  // namespace topograd::test
