// Plots as SVG for pages.
#pragma once

#include <string>
#include <vector>

namespace topograd::command {

/// A quantity at the steps 0, 1, 2, ... of a solve.
struct Plot {
  std::string title;
  std::vector<double> values;  ///< those that are not finite are left out
  std::vector<bool> marked;    ///< steps with a hollow mark; empty = none
};

/// The plot as an <svg> element. The ordinate is logarithmic where all values are positive and they
/// span more than a factor of 20; otherwise, and where some are 0 or less, linear. Values of 0
/// among positive ones that span that much are left out. Empty if no value is left.
std::string svg(const Plot& plot);

/// Points, and a curve through or beside them.
struct FitPlot {
  std::string title, x_name, y_name;
  std::vector<double> x, y;              ///< points; those that are not finite are left out
  std::vector<bool> marked;              ///< points with a hollow mark; empty = none
  std::vector<double> curve_x, curve_y;  ///< ascending in x
};

/// The plot as an <svg> element with linear axes; of many points it has some thousand, evenly
/// chosen, and always the ends. Empty if no point is finite.
std::string svg(const FitPlot& plot);

/// "0.0123", "4.5e-9": few digits for people.
std::string short_number(double value, int digits = 4);

}  // namespace topograd::command
