// Numbers that programs for Ceres name.
#pragma once

#include <numbers>

namespace ceres::constants {

inline constexpr double pi = std::numbers::pi;

}  // namespace ceres::constants
