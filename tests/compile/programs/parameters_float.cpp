// expect: add_parameters: expected doubles, got floats
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  (void)x;
  std::vector<float> values(6);
  problem.add_parameters(values, 3);
}
