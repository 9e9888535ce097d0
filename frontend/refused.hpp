// The exception of a callable that has no value at a point.
#pragma once

#include "../ir/error.hpp"

#include <string>

namespace topograd {

/// A callable cannot be evaluated at the present values: a functor returned false. If a branch is
/// being traced again at a trial point, the trial is rejected, as for a cost that is not finite.
class PointRefused : public Error {
 public:
  explicit PointRefused(const std::string& message) : Error(ErrorCode::Unsupported, message) {}
};

}  // namespace topograd
