// The check for objects that were moved from.
#pragma once

#include "error.hpp"

#include <string>

namespace topograd {

/// Returns the owned object. Throws Error{InvalidArgument} if its owner was moved from.
///
///   owned  a std::unique_ptr or std::shared_ptr
///   name   type of the owner, at the start of the message
template <class Owner>
auto& whole(const Owner& owned, const char* name) {
  if (owned == nullptr) [[unlikely]]
    throw Error(ErrorCode::InvalidArgument,
                std::string(name) + ": it was moved from; expected the one that it was moved to");
  return *owned;
}

}  // namespace topograd
