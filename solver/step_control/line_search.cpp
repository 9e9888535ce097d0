// The strong Wolfe line search: bracketing, then zooming in.
#include "line_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace topograd {
namespace {

/// Minimiser of the cubic with the values and slopes of both points; NaN if it has none. Nocedal &
/// Wright, eq. 3.59.
double cubic_minimiser(const LinePoint& a, const LinePoint& b) {
  const double d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step);
  const double d2 = std::copysign(std::sqrt(d1 * d1 - a.slope * b.slope), b.step - a.step);
  return b.step - (b.step - a.step) * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2);
}

class Search {
 public:
  Search(const std::function<LinePoint(double)>& phi, const LinePoint& start,
         const LineSearchOptions& options, double resolution)
      : phi_(phi), start_(start), options_(options), resolution_(resolution) {}

  LineSearchResult run(double initial) {
    LinePoint last = start_, now = evaluate(initial);
    while (may_go_on() && is_unseen(now)) now = evaluate(options_.max_expansion * now.step);
    for (bool first = true; may_go_on(); first = false) {
      const bool rises = !first && now.value >= last.value && !is_hidden(now);
      if (!decreases(now) || rises) return zoom(last, now);
      if (is_flat(now)) return found(now);
      if (now.slope >= 0) return zoom(now, last);
      const double next = cubic_minimiser(last, now);
      const double most = options_.max_expansion * now.step;
      last = now;
      now = evaluate(std::isfinite(next) ? std::clamp(next, 2 * last.step, most) : most);
    }
    if (decreases(now)) return found(now);
    return last.step > 0 ? found(last) : result_;
  }

 private:
  bool may_go_on() const { return result_.evaluations < options_.max_evaluations; }
  bool decreases(const LinePoint& p) const {
    return p.usable &&
           (p.value <= start_.value + options_.sufficient_decrease * p.step * start_.slope ||
            is_hidden(p));
  }
  /// True if rounding hides the difference from the start, and the slopes show a decrease: those of
  /// a parabola that decreases enough. Hager & Zhang (2005), approximate Wolfe conditions.
  bool is_hidden(const LinePoint& p) const {
    const double steepest = (2 * options_.sufficient_decrease - 1) * start_.slope;
    return p.usable && std::abs(p.value - start_.value) <= resolution_ && p.slope <= steepest;
  }
  bool is_flat(const LinePoint& p) const {
    return std::abs(p.slope) <= options_.sufficient_curvature_decrease * std::abs(start_.slope);
  }
  /// True if rounding hides the difference from the start but the slope is as steep as there.
  bool is_unseen(const LinePoint& p) const {
    return p.usable && p.slope < 0 && !is_flat(p) && -p.step * start_.slope <= resolution_ &&
           std::abs(p.value - start_.value) <= resolution_;
  }
  LinePoint evaluate(double step) {
    ++result_.evaluations;
    return phi_(step);
  }
  LineSearchResult found(const LinePoint& p) {
    result_.point = p;
    result_.found = true;
    return result_;
  }

  /// `low` is the start or the lowest point with a sufficient decrease; a step that meets both
  /// conditions lies between it and `high`.
  LineSearchResult zoom(LinePoint low, LinePoint high) {
    while (may_go_on()) {
      const double width = high.step - low.step;
      if (std::abs(width) < options_.min_step_size * std::max(std::abs(low.step), 1e-300)) break;
      double step = high.usable ? cubic_minimiser(low, high) : low.step + width / 2;
      // Keeps away from the ends, so that the bracket shrinks.
      const double a = low.step + 0.1 * width, b = low.step + 0.9 * width;
      step = std::isfinite(step) ? std::clamp(step, std::min(a, b), std::max(a, b))
                                 : low.step + width / 2;
      const LinePoint p = evaluate(step);
      if (!decreases(p) || (p.value >= low.value && !is_hidden(p))) {
        high = p;
        continue;
      }
      if (is_flat(p)) return found(p);
      if (p.slope * width >= 0) high = low;
      low = p;
    }
    return low.step > 0 ? found(low) : result_;
  }

  const std::function<LinePoint(double)>& phi_;
  const LinePoint& start_;
  const LineSearchOptions& options_;
  double resolution_;
  LineSearchResult result_;
};

}  // namespace

double parabola_minimiser(double slope, double length, double change) {
  const double quadratic = change - slope * length;
  if (!std::isfinite(quadratic) || quadratic <= 0) return std::numeric_limits<double>::quiet_NaN();
  return -slope * length * length / (2 * quadratic);
}

LineSearchResult strong_wolfe(const std::function<LinePoint(double step)>& phi,
                              const LinePoint& start, double initial,
                              const LineSearchOptions& options, double resolution) {
  return Search(phi, start, options, resolution).run(initial);
}

}  // namespace topograd
