// compiles: what programs for Ceres take from <ceres/rotation.h> alone.
#include "ceres/rotation.h"

double f(double x) {
  CHECK_GE(x, 0.0);
  return std::max(std::sqrt(x), ceres::constants::pi + std::numeric_limits<double>::epsilon());
}
