// expect: Topograd's headers need C++20: compile with -std=c++20
// standard: c++17
#include <topograd/topograd.hpp>

int main() {
  topograd::Problem problem;
  return problem.parameter_count() == 0 ? 0 : 1;
}
