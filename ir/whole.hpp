// What an object that was moved from says when it is used.
#pragma once

#include <topograd/ir/error.hpp>

#include <memory>
#include <string>

namespace topograd {

/// What an object owns. Throws Error{InvalidArgument} if it was moved from.
///
///   name  of its type, as messages begin with it
template <class T>
T& whole(const std::unique_ptr<T>& owned, const char* name) {
  if (owned == nullptr) [[unlikely]]
    throw Error(ErrorCode::InvalidArgument,
                std::string(name) + ": it was moved from; expected the one that it was moved to");
  return *owned;
}

}  // namespace topograd
