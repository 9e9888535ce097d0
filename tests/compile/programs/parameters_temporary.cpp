// expect: add_parameters: expected a container with a name, got a temporary one
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  (void)x;
  problem.add_parameters(std::vector<double>(6), 3);
}
