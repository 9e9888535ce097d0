// Value: a handle to one scalar node of an expression graph, with the arithmetic of scalar C++.
#pragma once

#include "tape.hpp"

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <type_traits>

namespace topograd {

namespace detail {
/// The result of a branch on the condition of this handle (frontend/problem/callables.hpp).
bool take_branch(std::uint64_t condition_bits);
}  // namespace detail

/// Handle to one scalar node of the expression that the calling thread is building. 8 bytes.
///
/// A C++ number that becomes a Value is *data*: one leaf for each conversion, never folded or
/// compared, so that its value can differ between residuals of one topology. literal() makes a
/// number part of the structure.
///
/// Handles are counted, so a sub-expression lives as long as a Value refers to it: it can be kept
/// and used in several residuals. Values belong to the thread that made them. Use on another thread
/// throws Error{StaleValue}, as does use of a default-constructed Value, and arithmetic with a
/// Value whose problem was destroyed.
class Value {
 public:
  Value() noexcept = default;
  template <class T>
  requires std::is_arithmetic_v<T> Value(
      T number)  // NOLINT: numbers mix with Values as they do with doubles
      : bits_(detail::append_number(detail::head(ir::Op::Data), static_cast<double>(number))) {}

  Value(const Value& other) : bits_(other.bits_) { detail::retain(bits_); }
  Value(Value&& other) noexcept : bits_(other.bits_) { other.bits_ = 0; }
  Value& operator=(const Value& other) {
    detail::retain(other.bits_);
    detail::release_replaced(bits_);
    bits_ = other.bits_;
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    const std::uint64_t taken = other.bits_;
    other.bits_ = 0;
    detail::release_replaced(bits_);
    bits_ = taken;
    return *this;
  }
  ~Value() { detail::release(bits_); }

  /// Takes ownership of the handle that an append made.
  static Value adopt(std::uint64_t bits) {
    Value value;
    value.bits_ = bits;
    return value;
  }
  /// Tape and node; 0 for a Value without an expression.
  std::uint64_t bits() const { return bits_; }

  // Eager mode (frontend/value/eager.hpp): numbers of expressions over variable()s.

  /// The present number of the expression. Throws Error{WrongProblem} if it reads a problem's
  /// parameters, uniforms or data, Error{StaleValue}. Cost: linear in the expression, times a
  /// logarithm.
  double value() const;
  /// Adds the derivatives of this expression to grad() of every variable that it depends on.
  ///
  /// Throws Error{NoParameters} if it depends on none, and what value() throws; derivatives are
  /// unchanged after an error. Cost: as value().
  void backward() const;
  /// Derivative by this variable, summed over the backward() calls since it was made or set to
  /// zero; 0 before the first call. Throws Error{InvalidArgument} if this is not a variable.
  double grad() const;
  /// Sets grad() to 0; errors as for grad().
  void zero_grad() const;
  /// Gives the variable a new number, which all expressions of it use; errors as for grad().
  void set_value(double number) const;

  Value& operator+=(const Value& b) { return *this = make(ir::Op::Add, *this, b); }
  Value& operator-=(const Value& b) { return *this = make(ir::Op::Sub, *this, b); }
  Value& operator*=(const Value& b) { return *this = make(ir::Op::Mul, *this, b); }
  Value& operator/=(const Value& b) { return *this = make(ir::Op::Div, *this, b); }

  /// Appends one op. Throws Error{StaleValue} if an operand is not a Value of this thread's tape,
  /// or depends on a problem that is gone.
  static Value make(ir::Op op, const Value& a) { return adopt(detail::append_op(op, a.bits_)); }
  static Value make(ir::Op op, const Value& a, const Value& b) {
    return adopt(detail::append_op(op, a.bits_, b.bits_));
  }
  static Value make(ir::Op op, const Value& a, const Value& b, const Value& c) {
    return adopt(detail::append_op(op, a.bits_, b.bits_, c.bits_));
  }

 private:
  std::uint64_t bits_ = 0;
};

// Not friends, so that a type that converts to Value (Uniform) needs no Value beside it.
inline Value operator+(const Value& a, const Value& b) { return Value::make(ir::Op::Add, a, b); }
inline Value operator-(const Value& a, const Value& b) { return Value::make(ir::Op::Sub, a, b); }
inline Value operator*(const Value& a, const Value& b) { return Value::make(ir::Op::Mul, a, b); }
inline Value operator/(const Value& a, const Value& b) { return Value::make(ir::Op::Div, a, b); }
inline Value operator-(const Value& a) { return Value::make(ir::Op::Neg, a); }
inline Value operator+(const Value& a) { return a; }

/// A truth value inside an expression: the result of comparisons and the argument of select().
class Bool {
 public:
  explicit Bool(Value value) : value_(static_cast<Value&&>(value)) {}

  /// 1 for true, 0 for false.
  const Value& value() const { return value_; }

  /// A branch: the condition at the present values of parameters, data and uniforms (in eager mode:
  /// of variables), recorded as a guard of the residual under construction. When the guard fails, a
  /// residual with a callable (Problem::add_residuals, Problem::add_residual(F)) is traced again;
  /// without a callable it is Error{StaleBranch}. Throws Error{StaleValue} or Error{WrongProblem}
  /// if the condition reads a leaf that has no number here. Implicit, like the conversion of a
  /// comparison of numbers. Cost: linear in the condition's expression.
  operator bool() const { return detail::take_branch(value_.bits()); }

  friend Bool operator&&(const Bool& a, const Bool& b) { return make(ir::Op::And, a, b); }
  friend Bool operator||(const Bool& a, const Bool& b) { return make(ir::Op::Or, a, b); }
  friend Bool operator!(const Bool& a) { return Bool(Value::make(ir::Op::Not, a.value_)); }

 private:
  static Bool make(ir::Op op, const Bool& a, const Bool& b) {
    return Bool(Value::make(op, a.value_, b.value_));
  }
  Value value_;
};

inline Bool operator==(const Value& a, const Value& b) {
  return Bool(Value::make(ir::Op::Eq, a, b));
}
inline Bool operator!=(const Value& a, const Value& b) {
  return Bool(Value::make(ir::Op::Ne, a, b));
}
inline Bool operator<(const Value& a, const Value& b) {
  return Bool(Value::make(ir::Op::Lt, a, b));
}
inline Bool operator<=(const Value& a, const Value& b) {
  return Bool(Value::make(ir::Op::Le, a, b));
}
inline Bool operator>(const Value& a, const Value& b) {
  return Bool(Value::make(ir::Op::Gt, a, b));
}
inline Bool operator>=(const Value& a, const Value& b) {
  return Bool(Value::make(ir::Op::Ge, a, b));
}

/// A number that is part of the structure: other literals give other topologies.
inline Value literal(double number) {
  return Value::adopt(detail::append_number(detail::head(ir::Op::Literal), number));
}

/// `a` where the condition holds, else `b`. Both sides are part of the expression; the side that is
/// not taken has no influence on values or derivatives, even if it is NaN or infinite.
inline Value select(const Bool& condition, const Value& a, const Value& b) {
  return Value::make(ir::Op::Select, condition.value(), a, b);
}

/// Writes the expression as a formula, "sqrt((x[0] - x[3])^2 + 4)". Unknowns are x[k] with their
/// index in x, uniforms u[k], entries of data arrays d[k], reads of a map's element e[k] in the
/// order of reading, variable()s v[k]. A repeated sub-expression is named first: "t1 = ...; t1 *
/// t1". A long formula is cut after 2,000 characters.
///
/// A Value of another thread or without an expression is "(no expression)". A Bool is printed as a
/// number, without taking a branch.
std::ostream& operator<<(std::ostream& out, const Value& value);
std::ostream& operator<<(std::ostream& out, const Bool& condition);

}  // namespace topograd
