// What an object that was moved from says when it is used.
#pragma once

#include "error.hpp"

#include <string>

namespace topograd {

/// What an object owns. Throws Error{InvalidArgument} if it was moved from.
///
///   owned  a std::unique_ptr or std::shared_ptr
///   name   of its type, as messages begin with it
template <class Owner>
auto& whole(const Owner& owned, const char* name) {
  if (owned == nullptr) [[unlikely]]
    throw Error(ErrorCode::InvalidArgument,
                std::string(name) + ": it was moved from; expected the one that it was moved to");
  return *owned;
}

}  // namespace topograd
