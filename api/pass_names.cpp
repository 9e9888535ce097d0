// Finds passes by their names.
#include "pass_names.hpp"

#include "../ir/error.hpp"

namespace topograd {

runtime::Pass pass_named(const std::string& text, std::span<const runtime::Pass> passes,
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
