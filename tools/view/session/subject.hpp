// The subject of a session: a problem, its points and their connections, its weights.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/options.hpp"
#include "handles.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::view {

/// A weight that can change while the problem runs.
struct Slider {
  std::string name;
  Uniform uniform;
  double low = 0, high = 1;
};

/// Residuals weight · switch · (p_i − target_i), three rows for each point. Handles change their
/// numbers alone.
struct Pulls {
  Data targets, switches;
  Uniform weight;
};

/// A problem with what is shown of it. Its memory lives as long as `memory`.
struct Subject {
  std::string name;
  std::shared_ptr<void> memory;
  Problem* problem = nullptr;
  Parameters points;  ///< blocks of three: the points that handles can have
  Pulls pulls;
  std::vector<Handle> handles;  ///< of the start
  std::vector<Slider> sliders;
  SolverOptions options = {.max_iterations = 8};

  std::size_t shown = 0;  ///< shown points; the first ones are `points`
  /// Writes the present 3 · shown coordinates.
  std::function<void(std::span<double>)> show;
  std::vector<std::array<std::uint32_t, 3>> triangles;
  std::vector<std::array<std::uint32_t, 2>> lines;
};

/// The weight of handles at the start, that of the pins of problems::arap().
inline constexpr double kHandleWeight = 10;

/// Adds Pulls for the blocks of an array, switched off.
///
///   points  blocks of three
Pulls add_pulls(Problem& problem, const Parameters& points, double weight = kHandleWeight);

}  // namespace topograd::view
