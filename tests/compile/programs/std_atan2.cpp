// expect: write sqrt(x) for std::sqrt(x)
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  problem.add_residual(std::atan2(x[0], x[1]));
}
