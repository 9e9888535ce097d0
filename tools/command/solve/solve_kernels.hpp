// The kernels of a solve, to be read.
#pragma once

#include "../../../api/source.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../solver/summary.hpp"

#include <vector>

namespace topograd::command {

/// The kernels that a solve of this kind runs, as Vulkan compiles them. Needs no device.
std::vector<NamedSource> kernels_of(const Problem& problem, const Summary& summary);

}  // namespace topograd::command
