// Internal: finds passes by the names that users give to kernels.
#pragma once

#include <span>
#include <string>

#include "../ir/error.hpp"
#include "../runtime/plan/passes.hpp"

namespace topograd {

/// The pass of `passes` with this name. Throws Error{InvalidArgument} with `expected`, such as
/// "dump: expected --kernel", the allowed names, and the text.
inline runtime::Pass pass_named(const std::string& text, std::span<const runtime::Pass> passes,
                                const char* expected) {
  std::string names;
  for (const runtime::Pass pass : passes) {
    if (text == name(pass)) return pass;
    names += (names.empty() ? "" : ", ") + std::string(name(pass));
  }
  throw Error(ErrorCode::InvalidArgument,
              std::string(expected) + " " + names + ", got \"" + text + "\"");
}

}  // namespace topograd
