// Content of a page that programs choose: triangles, lines, sliders of weights.
#pragma once

#include "../../frontend/problem.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd::view {

/// A weight that can change while the problem runs.
struct Slider {
  std::string name;
  Uniform uniform;
  double low = 0, high = 1;
};

/// Bounds of a solve between two frames: frames at a steady rate are worth more than exact steps,
/// which the next frames make up for.
inline constexpr int kSteps = 8;              ///< accepted and rejected ones
inline constexpr int kLinearIterations = 60;  ///< of conjugate gradients in a step

/// Triangles and lines between points, by their numbers. Without triangles the points are drawn.
struct Connections {
  std::vector<std::array<std::uint32_t, 3>> triangles;
  std::vector<std::array<std::uint32_t, 2>> lines;
};

}  // namespace topograd::view
