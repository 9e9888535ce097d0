// Plots as SVG for HTML pages.
#pragma once

#include <string>
#include <vector>

namespace topograd::command {

/// A quantity at the steps 0, 1, 2, ... of a solve.
struct Plot {
  std::string title;
  std::vector<double> values;  ///< values that are not finite are omitted
  std::vector<bool> marked;    ///< steps with a hollow mark; may be empty
};

/// The plot as an <svg> element. The ordinate is logarithmic if the positive values span more than
/// a factor of 20; values of 0 among them are then omitted. It is linear otherwise, and if a value
/// is negative. Empty if no value is left.
std::string svg(const Plot& plot);

/// Points, with a fitted curve.
struct FitPlot {
  std::string title, x_name, y_name;
  std::vector<double> x, y;              ///< points that are not finite are omitted
  std::vector<bool> marked;              ///< points with a hollow mark; may be empty
  std::vector<double> curve_x, curve_y;  ///< ascending in x
};

/// The plot as an <svg> element with linear axes. If there are many points, some thousand are
/// chosen evenly, always including the ends. Empty if no point is finite.
std::string svg(const FitPlot& plot);

/// "0.0123", "4.5e-9": a short form for readers.
std::string short_number(double value, int digits = 4);

}  // namespace topograd::command
