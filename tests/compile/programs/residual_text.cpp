// expect: add_residual: expected a Value, a Vec2, Vec3 or Vec4, a container of these
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  (void)x;
  problem.add_residual(std::string("x"));
}
