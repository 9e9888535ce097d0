// Command lists of an engine, by what is submitted together.
#pragma once

#include "gate.hpp"

#include <array>
#include <cstdint>

namespace topograd::runtime::vulkan {

struct Recorded {
  CommandList list;
  std::uint64_t kernels = 0;  ///< of residuals
};

/// Linearising, and conjugate gradients.
struct LinearLists {
  Recorded linearize, matrix, solve_start, iterations;
};

/// Trial points.
struct PointLists {
  Recorded trial, rescaled;
};

/// Between an engine and the one that solves for it: the first two go there, the third comes back.
struct NarrowLists {
  Recorded point, gradient, step;
};

/// A solve for the step.
struct SolveLists {
  const Recorded* start = nullptr;
  const Recorded* iterations = nullptr;
  const Recorded* finish = nullptr;  ///< or null
};

/// Queued behind a solve: from the trial point to the linearisation at the next point.
struct TakingLists {
  Gate rescaling, returning, moving;  ///< returning: on manifolds
  Recorded list, read;
  std::array<Recorded, 2> stage;  ///< copies the point to host memory
};

}  // namespace topograd::runtime::vulkan
