// expect: add_parameters: expected numbers that a solve can write, got a const container
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  (void)x;
  const std::vector<double> values(6);
  problem.add_parameters(values, 3);
}
