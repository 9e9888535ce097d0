// Eager mode: Values over numbers, to learn and to debug with.
#pragma once

#include "math.hpp"

#include <utility>

namespace topograd {

/// A Value with a number that derivatives are taken by.
///
///   Value x = variable(2.0), z = x * x + sin(x);
///   z.backward();
///   z.value(), x.grad();
///
/// For small expressions on one thread: every value() and backward() walks the whole expression.
/// Numbers mix with variables as they do with parameters; a variable and a Problem's parameters do
/// not (Error{WrongProblem}). A variable lives as long as a Value refers to it.
Value variable(double number);

/// Sets the derivatives of all variables of the calling thread to 0.
void zero_grad();

/// While it lives, what is computed from variables on this thread is a constant to backward():
/// value() is what it always is, derivatives do not go through. Variables made meanwhile are
/// variables.
class [[nodiscard]] NoGrad {
 public:
  NoGrad() { detail::begin_constants(); }
  ~NoGrad() { detail::end_constants(); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
};

inline NoGrad no_grad() { return NoGrad(); }
/// What `f` gives, computed under a NoGrad.
template <class F>
auto no_grad(F&& f) {
  const NoGrad guard;
  return std::forward<F>(f)();
}

}  // namespace topograd
