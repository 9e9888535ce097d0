// Options of the executors that this process makes by itself.
#pragma once

#include "options.hpp"

namespace topograd::runtime::hybrid {

/// The environment's; histories are kept with the caches unless it says otherwise. Throws as
/// environment_hybrid_options().
HybridOptions process_hybrid_options();

}  // namespace topograd::runtime::hybrid
