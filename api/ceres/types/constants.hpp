// Constants that programs for Ceres use.
#pragma once

#include <numbers>

namespace ceres::constants {

inline constexpr double pi = std::numbers::pi;

}  // namespace ceres::constants
