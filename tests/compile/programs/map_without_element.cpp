// expect: expected a callable that takes a topograd::Element
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  problem.add_residuals(3, [&](int i) { return x[i]; });
}
