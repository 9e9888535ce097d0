// expect: Topograd's headers need C++20: compile with -std=c++20
// standard: c++17
#include <ceres/ceres.h>

int main() {
  ceres::Problem problem;
  return problem.NumParameters() == 0 ? 0 : 1;
}
