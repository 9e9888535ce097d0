// What a callable throws at a point where it has no value.
#pragma once

#include "../ir/error.hpp"

#include <string>

namespace topograd {

/// A callable cannot be evaluated at the present values: a functor returned false. Where a branch
/// is traced again at a trial point, the trial is refused, as one whose cost is not finite.
class PointRefused : public Error {
 public:
  explicit PointRefused(const std::string& message) : Error(ErrorCode::Unsupported, message) {}
};

}  // namespace topograd
