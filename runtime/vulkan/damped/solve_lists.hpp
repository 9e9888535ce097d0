// The recorded lists of one way to solve for a step.
#pragma once

#include "../recording/recorded.hpp"

namespace topograd::runtime::vulkan {

/// Iterations of one recorded list, an even number; lists are submitted until the solver's state
/// says that it is done.
inline constexpr int kIterationsOfList = 16;

struct SolveLists {
  Recorded start, iterations;
  Recorded finish;  ///< empty where nothing follows the iterations
};

}  // namespace topograd::runtime::vulkan
