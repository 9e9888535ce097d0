// expect: add_parameters: expected a std::vector<double>, a std::array, an Eigen vector
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  (void)x;
  Eigen::MatrixXd values(2, 3);
  problem.add_parameters(values, 3);
}
