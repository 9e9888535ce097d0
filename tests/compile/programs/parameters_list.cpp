// expect: add_parameters: expected a std::vector<double>, a std::array, an Eigen vector
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  (void)x;
  std::list<double> values(6);
  problem.add_parameters(values, 3);
}
