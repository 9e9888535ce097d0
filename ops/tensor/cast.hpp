// Internal: type conversion of tensors.
#pragma once

#include "tensor.hpp"

namespace topograd::ops::detail {

/// Rounds to another floating-point type (to nearest, ties to even; f16 beyond 65504 becomes
/// infinite). Differentiable.
Tensor cast(const Tensor& from, Type type);

}  // namespace topograd::ops::detail
