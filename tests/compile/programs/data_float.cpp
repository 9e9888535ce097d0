// expect: add_data: expected doubles, got floats
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  (void)x;
  const std::vector<float> values(6);
  problem.add_data(values, 3);
}
