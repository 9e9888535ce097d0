// A line search for the strong Wolfe conditions.
#pragma once

#include "../options.hpp"

#include <functional>

namespace topograd {

/// Value and slope of a function along a line.
struct LinePoint {
  double step = 0;
  double value = 0;
  double slope = 0;
  bool usable = true;  ///< value and slope are finite
};

/// Position of the minimum of the parabola with this slope at 0 that changes by `change` at
/// `length` > 0; NaN if it has none.
double parabola_minimiser(double slope, double length, double change);

struct LineSearchResult {
  LinePoint point;      ///< the end; step 0 if nothing was found
  int evaluations = 0;  ///< of the function along the line
  bool found = false;   ///< the point has a sufficient decrease
};

/// Finds a step with φ(α) <= φ(0) + c₁ α φ'(0) and |φ'(α)| <= c₂ |φ'(0)|.
///
/// Brackets such a step and closes in on it by cubic interpolation. Unusable points are upper ends
/// of the bracket. If no step meets both conditions within the bound on evaluations, the best one
/// with a sufficient decrease is returned. A first step so short that rounding hides its gain is
/// lengthened first.
///
///   phi         value and slope at a step
///   start       φ(0), with a negative slope
///   initial     first step to try, > 0
///   resolution  changes of φ that rounding may hide, >= 0
///
/// Source: Nocedal & Wright, Numerical Optimization, 2nd ed., algorithms 3.5 and 3.6.
LineSearchResult strong_wolfe(const std::function<LinePoint(double step)>& phi,
                              const LinePoint& start, double initial,
                              const LineSearchOptions& options, double resolution = 0);

}  // namespace topograd
