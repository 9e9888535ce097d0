// Options of the executors that this process makes itself.
#pragma once

#include "options.hpp"

namespace topograd::runtime::hybrid {

/// Options of the environment; histories are kept in the cache folder by default. Throws the errors
/// of environment_hybrid_options().
HybridOptions process_hybrid_options();

}  // namespace topograd::runtime::hybrid
