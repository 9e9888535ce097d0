// Cost and gradient at a trial point, for steps along gradients.
#pragma once

#include "../terms/term_sums.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan {

/// Cost and gradient at v.trial, the latter to v.result, for the host to read with its norms.
void record_trial_gradient(CommandList& list, std::uint64_t scalars, const StepVectors& v,
                           TermSums& sums);

}  // namespace topograd::runtime::vulkan
