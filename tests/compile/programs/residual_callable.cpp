// expect: expected a callable that gives a Value, a Vec2, Vec3 or Vec4
#include <doors.hpp>

void f(tg::Problem& problem, const tg::Parameters& x) {
  problem.add_residual([&] { (void)x[0]; });
}
