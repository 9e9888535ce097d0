// The subject of a live solver: a problem, its points and their connections, its weights.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../solver/options.hpp"
#include "content.hpp"
#include "handles.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::view {

/// The coordinates of a shown point that are numbers of its block: the first three. A block of two
/// is a point in the plane z = 0. A block of one is a height y; x is the place of the block.
struct Axes {
  std::size_t first = 0, count = 3;
};
Axes axes_of(const Parameters& points);

/// Residuals weight · switch · (p_i − target_i), one row for each of the Axes. Handles change their
/// numbers alone.
struct Pulls {
  Data targets, switches;
  Uniform weight;
  Axes axes;
  std::vector<Residual> residuals;
};

/// A problem with what is shown of it. Its memory lives as long as `memory`.
struct Subject {
  std::string name;
  std::shared_ptr<void> memory;
  Problem* problem = nullptr;
  Parameters points;  ///< blocks, one for each point that handles can have
  Pulls pulls;
  std::vector<Handle> handles;  ///< of the start
  std::vector<Slider> sliders;
  SolverOptions options = {.max_iterations = kSteps};

  std::size_t shown = 0;  ///< shown points; the first ones are `points`
  /// Writes the present 3 · shown coordinates.
  std::function<void(std::span<double>)> show;
  Connections connections;
};

/// The weight of handles at the start, that of the pins of problems::arap().
inline constexpr double kHandleWeight = 10;
/// The slider of handles ends at this many times their weight at the start.
inline constexpr double kMostHandleWeights = 10;

/// Adds Pulls for the blocks of an array, switched off.
Pulls add_pulls(Problem& problem, const Parameters& points, double weight = kHandleWeight);

/// Moves the targets to these points and switches them.
///
///   targets   3 numbers for each block
///   switches  1 for each block: 0 or 1
void set_pulls(Problem& problem, const Pulls& pulls, std::span<const double> targets,
               std::span<const double> switches);

/// A subject that shows the blocks of an array by their Axes, with Pulls and their slider. The
/// problem and the memory of the array must outlive it.
///
/// Throws Error{InvalidArgument} for connections with points that do not exist, Error{WrongProblem}
/// for an array of another problem.
Subject make_subject(Problem& problem, const Parameters& points, Connections connections,
                     double weight = kHandleWeight);

/// The numbers of an array of unknowns; null if it was removed.
const double* values_of(const Problem& problem, const Parameters& array);

}  // namespace topograd::view
