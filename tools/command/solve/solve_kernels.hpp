// Readable source of the kernels of a solve.
#pragma once

#include "../../../api/source.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../solver/summary.hpp"

#include <vector>

namespace topograd::command {

/// The kernels that such a solve runs, as compiled by Vulkan. Needs no device.
std::vector<NamedSource> kernels_of(const Problem& problem, const Summary& summary);

}  // namespace topograd::command
