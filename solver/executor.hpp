// The executor of this process, which Backend::automatic asks and which learns from solves.
#pragma once

#include "../runtime/hybrid/executor.hpp"
#include "options.hpp"

#include <cstddef>

namespace topograd {

/// Made at the first call, with options from the environment; what it has learned is kept in the
/// folder of the caches (HybridOptions::state). Any thread.
///
/// Throws Error{InvalidArgument} for variables that cannot be read.
runtime::hybrid::Executor& hybrid_executor();

/// Adds the devices of this machine to an executor: all of them, or the one that is named. Returns
/// how many can be used; none in a build without Vulkan. Throws Error{InvalidArgument} for bad
/// options.
std::size_t add_devices(runtime::hybrid::Executor& executor, const SolverOptions& options = {});

}  // namespace topograd
