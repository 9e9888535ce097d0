// Internal: finds passes by the names that users give to kernels.
#pragma once

#include "../runtime/plan/passes.hpp"

#include <span>
#include <string>

namespace topograd {

/// The pass of `passes` with this name. Throws Error{InvalidArgument} with `expected`, such as
/// "dump: expected --kernel", the allowed names, and the text.
runtime::Pass pass_named(const std::string& text, std::span<const runtime::Pass> passes,
                         const char* expected);

}  // namespace topograd
