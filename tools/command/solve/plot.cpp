// Plots as SVG for HTML pages.
#include "plot.hpp"

#include "../../draw/svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace topograd::command {
namespace {

constexpr double kWidth = 520, kHeight = 250, kLeft = 66, kRight = 14, kTop = 34, kBottom = 34;

/// Converts numbers to coordinates of the picture.
struct Axes {
  double left = 0, right = 1;  // of the abscissa
  bool logarithmic = false;
  double low = 0, high = 1;  // of the ordinate: exponents of 10 if logarithmic

  double x(double value) const {
    return kLeft + (kWidth - kLeft - kRight) * (value - left) / (right - left);
  }
  double y(double value) const {
    const double v = logarithmic ? std::log10(value) : value;
    return kHeight - kBottom - (kHeight - kTop - kBottom) * (v - low) / (high - low);
  }
  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }
};

Axes axes_of(const Plot& plot) {
  constexpr double kLogarithmicFrom = 20;
  double low = std::numeric_limits<double>::infinity(), high = -low, positive = low;
  for (const double v : plot.values) {
    if (!std::isfinite(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
    if (v > 0) positive = std::min(positive, v);
  }
  Axes axes{.right = std::max(1.0, static_cast<double>(plot.values.size()) - 1)};
  axes.logarithmic = low >= 0 && high > kLogarithmicFrom * positive;
  if (axes.logarithmic) {
    axes.low = std::floor(std::log10(positive));
    axes.high = std::ceil(std::log10(high));
  } else {
    axes.low = low >= 0 && low < high / 2 ? 0 : low;
    axes.high = high > low ? high : low + std::max(std::abs(low), 1.0);
  }
  return axes;
}

/// A step of 1, 2 or 5 times a power of ten, with about `count` steps in `range`.
double nice_step(double range, double count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

std::string format(const char* text, double a, double b, double c, double d) {
  char out[256];
  std::snprintf(out, sizeof out, text, a, b, c, d);
  return out;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  char at[96];
  std::snprintf(at, sizeof at, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  return at + draw::escaped(text) + "</text>";
}

std::string line(double x1, double y1, double x2, double y2) {
  return format("<path class=\"grid\" d=\"M%.1f %.1fL%.1f %.1f\"/>", x1, y1, x2, y2);
}

/// Lines and labels of the ordinate, labels of the abscissa.
///
///   least_step  between labels of the abscissa
std::string grid(const Axes& axes, double least_step) {
  std::string out;
  const auto rule = [&](double value, const std::string& text) {
    const double y = axes.y(value);
    out += line(kLeft, y, kWidth - kRight, y) + label(kLeft - 7, y + 4, "end", text);
  };
  if (axes.logarithmic) {
    const double step = std::max(1.0, std::ceil((axes.high - axes.low) / 6));
    for (double e = axes.low; e <= axes.high; e += step) {
      char text[32];
      std::snprintf(text, sizeof text, "1e%.0f", e);
      rule(std::pow(10, e), text);
    }
  } else {
    const double step = nice_step(axes.high - axes.low, 5);
    for (double v = std::ceil(axes.low / step) * step; v <= axes.high + 1e-9 * step; v += step)
      rule(v, short_number(std::abs(v) < 1e-9 * step ? 0 : v, 6));
  }
  const double step = std::max(least_step, nice_step(axes.right - axes.left, 8));
  for (double k = std::ceil(axes.left / step) * step; k <= axes.right + 1e-9 * step; k += step)
    out += label(axes.x(k), kHeight - kBottom + 18, "middle",
                 short_number(std::abs(k) < 1e-9 * step ? 0 : k, 6));
  return out;
}

/// The <svg> element of a drawing.
std::string svg_element(const std::string& title, const std::string& drawing) {
  char head[160];
  std::snprintf(head, sizeof head,
                "<svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", kWidth,
                kHeight);
  return head + draw::escaped(title) + "\">" + drawing + "</svg>\n";
}

/// Makes a range non-empty, with a margin on both sides.
void widen(double& low, double& high) {
  constexpr double kMargin = 0.04;
  const double range = high > low ? high - low : std::max(std::abs(low), 1.0);
  low -= kMargin * range;
  high += kMargin * range;
}

Axes axes_of(const FitPlot& plot) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Axes axes{.left = kInfinity, .right = -kInfinity, .low = kInfinity, .high = -kInfinity};
  const auto include = [&](const std::vector<double>& x, const std::vector<double>& y) {
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (!std::isfinite(x[k]) || !std::isfinite(y[k])) continue;
      axes.left = std::min(axes.left, x[k]);
      axes.right = std::max(axes.right, x[k]);
      axes.low = std::min(axes.low, y[k]);
      axes.high = std::max(axes.high, y[k]);
    }
  };
  include(plot.x, plot.y);
  if (axes.left > axes.right) return axes;
  include(plot.curve_x, plot.curve_y);
  widen(axes.left, axes.right);
  widen(axes.low, axes.high);
  return axes;
}

}  // namespace

std::string short_number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string svg(const Plot& plot) {
  const Axes axes = axes_of(plot);
  std::string path, dots;
  for (std::size_t k = 0; k < plot.values.size(); ++k) {
    const double v = plot.values[k], x = axes.x(static_cast<double>(k));
    if (!axes.shows(v)) continue;
    const bool marked = k < plot.marked.size() && plot.marked[k];
    path += format(path.empty() ? "M%.1f %.1f" : "L%.1f %.1f", x, axes.y(v), 0, 0);
    dots += "<circle" + std::string(marked ? " class=\"rejected\"" : "") +
            format(" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", x, axes.y(v),
                   plot.values.size() > 80 && !marked ? 1.3 : 2.6, 0) +
            "<title>step " + std::to_string(k) + (marked ? " (rejected)" : "") + ": " +
            short_number(v, 8) + "</title></circle>";
  }
  if (path.empty()) return "";
  return svg_element(
      plot.title,
      label(kLeft, 18, "start", plot.title + (axes.logarithmic ? " (logarithmic)" : "")) +
          grid(axes, 1) + "<path class=\"curve\" d=\"" + path + "\"/>" + dots);
}

std::string svg(const FitPlot& plot) {
  constexpr std::size_t kMostPoints = 2000;
  const Axes axes = axes_of(plot);
  if (axes.left > axes.right) return "";
  std::string path, dots;
  for (std::size_t k = 0; k < plot.curve_x.size(); ++k) {
    if (!std::isfinite(plot.curve_y[k])) continue;
    path += format(path.empty() ? "M%.1f %.1f" : "L%.1f %.1f", axes.x(plot.curve_x[k]),
                   axes.y(plot.curve_y[k]), 0, 0);
  }
  const std::size_t shown = std::min(plot.x.size(), kMostPoints);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t k = shown < 2 ? 0 : i * (plot.x.size() - 1) / (shown - 1);
    if (!std::isfinite(plot.x[k]) || !std::isfinite(plot.y[k])) continue;
    const bool marked = k < plot.marked.size() && plot.marked[k];
    dots += std::string("<circle") + (marked ? " class=\"rejected\"" : "") +
            format(" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", axes.x(plot.x[k]), axes.y(plot.y[k]),
                   shown > 200 ? 1.6 : 3, 0) +
            "<title>#" + std::to_string(k) + ": " + draw::escaped(plot.x_name) + " " +
            short_number(plot.x[k], 8) + ", " + draw::escaped(plot.y_name) + " " +
            short_number(plot.y[k], 8) + "</title></circle>";
  }
  return svg_element(plot.title, label(kLeft, 18, "start", plot.title) + grid(axes, 0) +
                                     label(kWidth - kRight, kHeight - 3, "end", plot.x_name) +
                                     dots + "<path class=\"fit\" d=\"" + path + "\"/>");
}

}  // namespace topograd::command
