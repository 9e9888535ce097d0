// Eager mode: Values over numbers, for learning and debugging.
#pragma once

#include "math.hpp"

#include <utility>

namespace topograd {

/// A Value with a number, by which derivatives are taken.
///
///   Value x = variable(2.0), z = x * x + sin(x);
///   z.backward();
///   z.value(), x.grad();
///
/// For small expressions on one thread: every value() and backward() walks the whole expression.
/// Numbers mix with variables as they do with parameters; variables and a Problem's parameters do
/// not mix (Error{WrongProblem}). A variable lives as long as a Value refers to it.
Value variable(double number);

/// Sets the derivatives of all variables of the calling thread to 0.
void zero_grad();

/// While it lives, results that this thread computes from variables are constants for backward():
/// value() is unchanged, but derivatives do not pass through them. Variables made meanwhile are
/// variables.
class [[nodiscard]] NoGrad {
 public:
  NoGrad() { detail::begin_constants(); }
  ~NoGrad() { detail::end_constants(); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
};

inline NoGrad no_grad() { return NoGrad(); }
/// Calls `f` under a NoGrad and returns its result.
template <class F>
auto no_grad(F&& f) {
  const NoGrad guard;
  return std::forward<F>(f)();
}

}  // namespace topograd
