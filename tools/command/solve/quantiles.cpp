// Inverts incomplete beta and gamma functions by bisection.
#include "quantiles.hpp"

#include <cmath>
#include <limits>

namespace topograd::command {
namespace {

constexpr double kLeast = 1e-300;
constexpr double kPrecision = 1e-15;
constexpr int kMostTerms = 20'000;

/// The continued fraction of A&S 26.5.8, from its first term on, by Lentz's method.
double beta_fraction(double x, double a, double b) {
  double numerator = 1, denominator = 1 - (a + b) * x / (a + 1);
  if (std::abs(denominator) < kLeast) denominator = kLeast;
  denominator = 1 / denominator;
  double value = denominator;
  const auto step = [&](double term) {
    denominator = 1 + term * denominator;
    if (std::abs(denominator) < kLeast) denominator = kLeast;
    denominator = 1 / denominator;
    numerator = 1 + term / numerator;
    if (std::abs(numerator) < kLeast) numerator = kLeast;
    const double factor = numerator * denominator;
    value *= factor;
    return std::abs(factor - 1);
  };
  for (int m = 1; m < kMostTerms; ++m) {
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    if (step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))) < kPrecision) break;
  }
  return value;
}

/// The regularised incomplete beta function I_x(a, b).
double beta_share(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
  return 1 - front * beta_fraction(1 - x, b, a) / b;
}

/// The regularised incomplete gamma function P(a, x), by its power series (A&S 6.5.29).
double gamma_share(double a, double x) {
  if (x <= 0) return 0;
  double term = 1 / a, sum = term;
  for (int n = 1; n < kMostTerms && term > kPrecision * sum; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * std::exp(a * std::log(x) - x - std::lgamma(a));
}

double share_below(double f, double numerator, double denominator) {
  if (std::isinf(denominator)) return gamma_share(numerator / 2, f * numerator / 2);
  const double scaled = numerator * f;
  return beta_share(scaled / (scaled + denominator), numerator / 2, denominator / 2);
}

}  // namespace

double f_quantile(double probability, double numerator, double denominator) {
  double low = 0, high = 1;
  while (share_below(high, numerator, denominator) < probability && high < 1e300) high *= 2;
  for (int k = 0; k < 200; ++k) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (share_below(middle, numerator, denominator) < probability ? low : high) = middle;
  }
  return high;
}

}  // namespace topograd::command
