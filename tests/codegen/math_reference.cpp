// Errors against MPFR at 200 bits, in ulp of the result's format down to the subnormal ones.
#include "math_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace topograd::codegen::test {
namespace {

template <class T>
double ulp_of(mpfr_srcptr value) {
  using L = std::numeric_limits<T>;
  const long exponent = mpfr_zero_p(value) ? L::min_exponent : mpfr_get_exp(value);
  const long bounded = std::min<long>(std::max<long>(exponent, L::min_exponent), L::max_exponent);
  return std::ldexp(1.0, static_cast<int>(bounded - L::digits));
}

template <class T>
void evaluate(const MathFunction& f, Arguments<T> a, mpfr_ptr out) {
  static Number x, y;
  mpfr_set_d(x.get(), a.x, MPFR_RNDN);
  mpfr_set_d(y.get(), a.y, MPFR_RNDN);
  if (f.unary) {
    f.unary(out, x.get(), MPFR_RNDN);
  } else {
    f.binary(out, x.get(), y.get(), MPFR_RNDN);
  }
}

// Error in units in the last place of the exact value; infinity counts as the first number out of
// range.
template <class T>
double error_in_ulp(mpfr_srcptr exact, T got) {
  using L = std::numeric_limits<T>;
  static Number difference;
  if (std::isinf(got)) {
    if (mpfr_get_exp(exact) > L::max_exponent) return 0;
    mpfr_set_ui_2exp(difference.get(), 1, L::max_exponent, MPFR_RNDN);
    if (got < 0) mpfr_neg(difference.get(), difference.get(), MPFR_RNDN);
  } else {
    mpfr_set_d(difference.get(), got, MPFR_RNDN);
  }
  mpfr_sub(difference.get(), difference.get(), exact, MPFR_RNDN);
  mpfr_div_d(difference.get(), difference.get(), ulp_of<T>(exact), MPFR_RNDN);
  return std::fabs(mpfr_get_d(difference.get(), MPFR_RNDN));
}

// True if the exact value rounds to infinity (or nearly), so that infinity is acceptable.
template <class T>
bool fair_infinity(mpfr_srcptr exact, T got) {
  return (mpfr_sgn(exact) < 0) == (got < 0) &&
         mpfr_get_exp(exact) >= std::numeric_limits<T>::max_exponent;
}

template <class T>
bool special_agrees(mpfr_srcptr exact, T got) {
  if (mpfr_nan_p(exact)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (mpfr_zero_p(exact)) return got == 0 && std::signbit(got) == (mpfr_signbit(exact) != 0);
  if (mpfr_inf_p(exact)) return std::isinf(got) && std::signbit(got) == (mpfr_sgn(exact) < 0);
  if (std::isinf(got)) return fair_infinity(exact, got);
  return true;
}

template <class T>
std::string describe(const MathFunction& f, Arguments<T> a, T got) {
  char text[160];
  if (f.unary) {
    std::snprintf(text, sizeof text, "%.*s(%a) = %a", int(f.name.size()), f.name.data(),
                  double(a.x), double(got));
  } else {
    std::snprintf(text, sizeof text, "%.*s(%a, %a) = %a", int(f.name.size()), f.name.data(),
                  double(a.x), double(a.y), double(got));
  }
  return text;
}

}  // namespace

template <class T>
Worst<T> compare(const MathFunction& f, std::span<const Arguments<T>> arguments,
                 std::span<const T> results, bool flushed) {
  Worst<T> worst;
  Number exact;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Arguments<T> a = arguments[i];
    const T got = results[i];
    if (flushed && (subnormal(a.x) || subnormal(a.y))) continue;
    evaluate(f, a, exact.get());
    if (f.name == "rsqrt" && a.x == 0 && std::signbit(a.x)) mpfr_set_inf(exact.get(), -1);
    const bool tiny = mpfr_regular_p(exact.get()) &&
                      mpfr_get_exp(exact.get()) < std::numeric_limits<T>::min_exponent;
    if (flushed && tiny && std::fabs(got) <= std::numeric_limits<T>::min()) continue;
    if (!special_agrees(exact.get(), got)) {
      if (worst.wrong_specials++ == 0) worst.first_wrong = describe(f, a, got);
      continue;
    }
    if (!mpfr_regular_p(exact.get())) continue;
    const double ulp = error_in_ulp(exact.get(), got);
    if (ulp > worst.ulp) worst.ulp = ulp, worst.at = a, worst.got = got;
  }
  return worst;
}

template <class T>
std::string row(const MathFunction& f, const Worst<T>& worst, std::size_t points) {
  char text[256];
  std::snprintf(text, sizeof text, "%-6.*s %7zu points  %6.3f ulp at %s", int(f.name.size()),
                f.name.data(), points, worst.ulp, describe(f, worst.at, worst.got).c_str());
  return text;
}

#define INSTANTIATE(T)                                                             \
  template Worst<T> compare<T>(const MathFunction&, std::span<const Arguments<T>>, \
                               std::span<const T>, bool);                          \
  template std::string row<T>(const MathFunction&, const Worst<T>&, std::size_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace topograd::codegen::test
