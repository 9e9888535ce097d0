// Problems with branches, each also with select() instead.
#include "branch_problems.hpp"

#include <cmath>

namespace topograd::test {
namespace {

template <class T>
T pressed(const T& d) {
  return 3.0 * d + d * d;
}
template <class T>
T stretched(const T& d) {
  return 0.8 * d;
}

}  // namespace

SidedSprings::SidedSprings(std::size_t n, double start, Written written) : x(n, start) {
  for (std::size_t k = 0; k < n; ++k) {
    targets.push_back(std::sin(0.7 * static_cast<double>(k)));
    indices.push_back(static_cast<std::uint32_t>(k));
  }
  parameters = problem.add_parameters(x);
  const Parameters p = parameters;
  const auto by_if = [p](Element e) {
    const Value d = e.scalar(p, 0) - e.data(0);
    if (d < 0.0) return pressed(d);
    return stretched(d);
  };
  const auto by_select = [p](Element e) {
    const Value d = e.scalar(p, 0) - e.data(0);
    return select(d < 0.0, pressed(d), stretched(d));
  };
  const MapOptions options{.indices = indices, .data = targets, .label = "spring"};
  springs = written == Written::by_if ? problem.add_residuals(n, by_if, options)
                                      : problem.add_residuals(n, by_select, options);
  for (std::size_t k = 0; k + 1 < n; ++k) problem.add_residual(0.3 * (p[k + 1] - p[k]));
}

}  // namespace topograd::test
