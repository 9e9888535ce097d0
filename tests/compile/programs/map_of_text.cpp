// expect: expected a callable that gives a Value, a Vec2, Vec3 or Vec4
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  (void)x;
  problem.add_residuals(3, [](tg::Element) { return std::string("x"); });
}
