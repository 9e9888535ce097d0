// The check at the end of every pass: in debug builds, the verifier.
#pragma once

#include "../program.hpp"
#include "../verify.hpp"

#include <utility>

namespace topograd::ir {

/// Returns the program; in debug builds ends the process if it breaks an invariant.
inline Program checked(Program program, [[maybe_unused]] const char* pass) {
#ifndef NDEBUG
  verify(program, pass);
#endif
  return program;
}

}  // namespace topograd::ir
