// Internal: passes by their names, as users ask for kernels.
#pragma once

#include "../runtime/plan/passes.hpp"

#include <span>
#include <string>

namespace topograd {

/// The one of `passes` that is called so. Throws Error{InvalidArgument}: `expected`, such as
/// "dump: expected --kernel", their names, and what came.
runtime::Pass pass_named(const std::string& text, std::span<const runtime::Pass> passes,
                         const char* expected);

}  // namespace topograd
