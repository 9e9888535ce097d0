// Correctly rounded references (MPFR), test inputs and errors in ulp for the GLSL math library.
#pragma once

#include <mpfr.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::codegen::test {

constexpr mpfr_prec_t kReferenceBits = 200;

/// An MPFR number.
class Number {
 public:
  Number() { mpfr_init2(value_, kReferenceBits); }
  ~Number() { mpfr_clear(value_); }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  mpfr_ptr get() { return value_; }

 private:
  mpfr_t value_;
};

/// A function under test with the library's error bounds in ulp.
struct MathFunction {
  std::string_view name;
  int (*unary)(mpfr_t, mpfr_srcptr, mpfr_rnd_t) = nullptr;
  int (*binary)(mpfr_t, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t) = nullptr;
  std::vector<double> edges;  ///< numbers whose neighbourhood is tested
  double low = -1, high = 1;  ///< range of most arguments in practice
  double bound = 1;
  double bound_f32 = bound;

  template <class T>
  double bound_of() const {
    return sizeof(T) == 4 ? bound_f32 : bound;
  }
  int arity() const { return unary ? 1 : 2; }
};

std::span<const MathFunction> math_functions();

template <class T>
struct Arguments {
  T x, y;
};

/// Special values, edges of binades, neighbourhoods, near multiples of pi/2, random bits over the
/// whole range and random numbers in [low, high]; `random` of each of the last three kinds.
template <class T>
std::vector<Arguments<T>> sweep(const MathFunction& function, int random);

/// The largest error and its argument.
template <class T>
struct Worst {
  double ulp = 0;
  Arguments<T> at{};
  T got = 0;
  int wrong_specials = 0;  ///< NaN, infinity or signed zero in only one of expected and got
  std::string first_wrong;
};

/// Compares results of f(arguments[i]). With `flushed`, subnormal numbers may be zero, as operands
/// and as results.
template <class T>
Worst<T> compare(const MathFunction& function, std::span<const Arguments<T>> arguments,
                 std::span<const T> results, bool flushed = false);

/// One line: name, points, largest error, argument.
template <class T>
std::string row(const MathFunction& function, const Worst<T>& worst, std::size_t points);

/// True between 0 and the smallest normal number, where devices may flush to 0.
template <class T>
bool subnormal(T x) {
  return x != 0 && std::fabs(x) < std::numeric_limits<T>::min();
}

}  // namespace topograd::codegen::test
