// Quantiles of the distributions of statistics.
#pragma once

namespace topograd::command {

/// The number that a variable of the F distribution does not exceed with a probability.
///
///   probability  in (0, 1)
///   numerator    degrees of freedom, > 0
///   denominator  likewise; infinity: χ² of `numerator` degrees of freedom, divided by them
///
/// Student's t of two sides is its root with one degree of freedom in the numerator. Relative error
/// below 1e-10. Source: Abramowitz & Stegun, 26.5.8 and 26.6.2.
double f_quantile(double probability, double numerator, double denominator);

}  // namespace topograd::command
