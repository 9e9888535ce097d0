// Errors of PETSc's calls.
#pragma once

#include "../ir/error.hpp"

#include <petscsys.h>

#include <string>

namespace topograd::distributed {

/// Throws Error{Internal} with PETSc's text unless the call succeeded.
inline void check(PetscErrorCode code) {
  if (code == 0) return;
  const char* text = nullptr;
  PetscErrorMessage(code, &text, nullptr);
  throw Error(ErrorCode::Internal,
              std::string("distributed: PETSc: ") + (text == nullptr ? "unknown error" : text));
}

}  // namespace topograd::distributed
