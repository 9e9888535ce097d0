// The best point of a solve, on its way from an engine to the host.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/model.hpp"
#include "../first_order/objective.hpp"

#include <span>
#include <vector>

namespace topograd {

/// The start of a solve, later the best accepted point that the host knows.
struct BestPoint {
  std::vector<double> x;
  BestElsewhere elsewhere;  ///< while a method that takes energies has it

  /// Takes the engine's point, or the last one that had reached the host if the engine fails.
  /// Fixed scalars stay. Returns how many of the `accepted` steps came after it.
  int fetch(runtime::Engine& engine, const runtime::Model& model, int accepted) noexcept;
  /// Fetches a point that is elsewhere; x stays if that fails.
  void fetch_elsewhere() noexcept;
  /// Takes these numbers of what is not fixed.
  void take(std::span<const double> best, const runtime::Model& model) noexcept;
};

}  // namespace topograd
