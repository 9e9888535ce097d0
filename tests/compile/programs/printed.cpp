// compiles: Values and what holds them are printed.
#include <doors.hpp>

#include <iostream>

void f(const tg::Parameters& x, const tg::Uniform& u) {
  std::cout << x[0] << (x[0] < 2.0) << x.vec3(0) << u << 1.5 << 'c' << true << "text";
}
